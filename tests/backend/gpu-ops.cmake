# ggml's own comparison with the CPU on emulated GPUs.

# gpu_ops_test(name arch cases [partial] arguments...): as ops_test, on a GPU that is as unkind as a real
# one may be. Kernels are compiled once for all of these tests. Without a compiler they are skipped.
function(gpu_ops_test name arch cases)
    ops_test(${name} ${cases} ${ARGN})
    set_tests_properties(${name} PROPERTIES
        ENVIRONMENT "GGML_HSA_EMULATE=${arch};GGML_HSA_EMU_STRICT=1;GGML_BACKEND_PATH=$<TARGET_FILE:ggml-hsa>;CANDLE_ROCM_VERSION=0;ROCM_KERNELS_COMPILER=clang;CANDLE_ROCM_CACHE_DIR=${CMAKE_CURRENT_BINARY_DIR}/gpu-kernels")
endfunction()

# rocr_ops_test(name arch cases arguments...): the same on AMD's own ROCr, with the GPU below it.
function(rocr_ops_test name arch)
    gpu_ops_test(${name} "" ${ARGN})
    set(run sh ${CMAKE_SOURCE_DIR}/tests/emu/kfd/run.sh ${CMAKE_BINARY_DIR} ${GGML_HSA_ROCR_DIR} ${arch} -C ${GGML_BIN_DIR})
    list(JOIN run " " run)
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "OPS_RUN=${run}")
    set_tests_properties(${name} PROPERTIES LABELS "rocr;long" TIMEOUT 1200)
endfunction()

set(gpu_rows SOFT_MAX,NORM,RMS_NORM,SUM_ROWS,ARGMAX)
set(gpu_nodes ACC,ADD1,ADD_ID,ARANGE,COUNT_EQUAL,CROSS_ENTROPY_LOSS,CROSS_ENTROPY_LOSS_BACK,CUMSUM,DIAG,DIAG_MASK_INF,FILL,GET_ROWS_BACK,GROUP_NORM,L2_NORM,MEAN,OPT_STEP_ADAMW,OPT_STEP_SGD,OUT_PROD,PAD,PAD_REFLECT_1D,REPEAT_BACK,RMS_NORM_BACK,ROLL,SET,SOFT_MAX_BACK,SUM,TIMESTEP_EMBEDDING,TRI,UPSCALE)
set(gpu_states SSM_CONV,SSM_SCAN,RWKV_WKV6,RWKV_WKV7,GATED_LINEAR_ATTN,GATED_DELTA_NET,SOLVE_TRI)
set(gpu_convs COL2IM_1D,CONV_2D,CONV_2D_DW,CONV_3D,CONV_TRANSPOSE_1D,CONV_TRANSPOSE_2D,POOL_1D,POOL_2D,IM2COL,IM2COL_3D)
set(gpu_moves CPY,CONT,DUP,REPEAT,CONCAT,GET_ROWS,SET_ROWS,ROPE,ROPE_BACK)
set(gpu_chains ADD_ADD,NORM_MUL_ADD,NORM_SCALE,RMS_NORM_SCALE,GELU_MUL,SIGMOID_MUL,SILU_MUL,SOFTPLUS_MUL,RELU_SQR,SNAKE_FUSE,SOFTCAP)

# One wide and one narrow architecture; all four whole in `make test-ops`.
set(binary_cases 334 -o ADD,SUB,MUL,DIV -p ${small})
set(unary_cases 358 -o ${unary_ops},${glu_ops} -p ${small})
set(rows_cases 297 -o ${gpu_rows} -p ${small})
set(mul-mat_cases 193 -o MUL_MAT -p "type_a=(f32|f16|bf16),.*(${products})")
foreach(kind binary unary rows mul-mat)
    foreach(arch gfx90a gfx1100)
        gpu_ops_test(backend-ops-${arch}-${kind} ${arch} ${${kind}_cases})
    endforeach()
    rocr_ops_test(rocr-ops-gfx1100-${kind} gfx1100 ${${kind}_cases})
endforeach()
gpu_ops_test(backend-ops-gfx942-moves  gfx942 403 partial -o CPY,CONT,DUP,REPEAT,CONCAT
    -p "type(_src)?=(f32|f16|bf16|i32),.*ne")
gpu_ops_test(backend-ops-gfx942-quants gfx942 132 -o MUL_MAT
    -p "type_a=(q2_K|q[3-8]_|iq4|mxfp4).*,m=(16|64),n=(1|2|9|77),")
# Types with tables of ggml's: rows and products.
foreach(arch gfx942 gfx1100)
    gpu_ops_test(backend-ops-${arch}-grids ${arch} 49 -o GET_ROWS,MUL_MAT
        -p "(type=iq[123].*n=256,m=5,r=4,be1=1,|type_a=iq[123].*m=16,n=(1|9),k=256,bs=.1,1.,nr=.1,1.)")
endforeach()
gpu_ops_test(backend-ops-gfx1100-hadamard gfx1100 16 -o MUL_MAT_HADAMARD)
# Products by matrix instructions; those of gfx942 are above.
foreach(arch gfx90a gfx1100 gfx1151)
    gpu_ops_test(backend-ops-${arch}-matrix ${arch} 10 -o MUL_MAT
        -p "type_a=(f16|bf16|q4_0|q8_0|q4_K),type_b=f32,m=(16,n=9|1,n=64),k=256,bs=.1,1.,nr=.1,1.")
endforeach()
gpu_ops_test(backend-ops-gfx942-chains gfx942 185 -o ${gpu_chains} -p ${small})
gpu_ops_test(backend-ops-gfx942-rope   gfx942  87 -o ROPE,ROPE_BACK -p "^(?!.*2457).*f16.*ff=1")
gpu_ops_test(backend-ops-gfx942-rows-set gfx942 559 -o SET_ROWS)
gpu_ops_test(backend-ops-gfx942-rows-get gfx942 35 -o GET_ROWS
    -p "type=(f32|f16|bf16|i32),n=(1|256),m=[1-9],")

# No number of four digits in their shapes.
gpu_ops_test(backend-ops-gfx90a-nodes gfx90a 122 partial -o ACC,ADD_ID,ARANGE,CROSS_ENTROPY_LOSS,CUMSUM,DIAG,DIAG_MASK_INF,FILL,L2_NORM,MEAN,PAD,PAD_REFLECT_1D,SET,SUM,TRI
    -p "^(?!.*[1-9][0-9][0-9][0-9])")
gpu_ops_test(backend-ops-gfx1100-states gfx1100 53 -o ${gpu_states}
    -p "^(?!.*([1-9][0-9][0-9][0-9]|n_seq_tokens=[1-9][0-9]|head_size=128|n_tokens=[1-9][0-9]))")
gpu_ops_test(backend-ops-gfx942-convs gfx942 91 -o COL2IM_1D,CONV_2D_DW,CONV_TRANSPOSE_1D,CONV_TRANSPOSE_2D
    -p "^(?!.*([1-9][0-9][0-9][0-9]|[1-9][0-9][0-9],[1-9][0-9][0-9]|s0=2|k0=1))")
gpu_ops_test(backend-ops-gfx942-sort gfx942 27 -o TOP_K,ARGSORT -p "ne=.(15|16|1023|33024),[0-9],")
gpu_ops_test(backend-ops-gfx942-experts gfx942 6 -o MUL_MAT_ID
    -p "type_a=(f16|q4_0|q4_K),type_b=f32,n_mats=4,n_used=2,b=0,m=512,n=(1|32),")
gpu_ops_test(backend-ops-gfx942-blocks gfx942 76 partial -o GET_ROWS,CPY,CONCAT -p "type(_src|_dst)?=(q8_0|q4_K|i16)")
foreach(arch gfx90a gfx1100)
    gpu_ops_test(backend-ops-${arch}-attention ${arch} 36 -o FLASH_ATTN_EXT
        -p "hsk=(64|40),.*nh=4,nr23=.[14],1.,kv=113,nb=(1|3),.*type_K=(f16|q8_0)")
endforeach()

foreach(arch gfx90a gfx942 gfx1100 gfx1151)
    set(name backend-ops-whole-${arch})
    gpu_ops_test(${name} ${arch} 3768 partial
        -o ADD,SUB,MUL,DIV,${unary_ops},${glu_ops},${gpu_rows},${gpu_moves},${gpu_chains},${long_chains},MUL_MAT,MUL_MAT_HADAMARD)
    gpu_ops_test(${name}-nodes ${arch} 5000 partial -o ${gpu_nodes},${gpu_states},${gpu_convs},ARGSORT,TOP_K,MUL_MAT_ID)
    gpu_ops_test(${name}-attention ${arch} 5290 partial -o FLASH_ATTN_EXT)
    set_tests_properties(${name} ${name}-nodes ${name}-attention PROPERTIES LABELS whole TIMEOUT 3600)
endforeach()
