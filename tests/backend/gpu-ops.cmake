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
set(gpu_moves CPY,CONT,DUP,REPEAT,CONCAT,GET_ROWS,SET_ROWS,ROPE,ROPE_BACK)
set(gpu_chains ADD_ADD,NORM_MUL_ADD,NORM_SCALE,RMS_NORM_SCALE,GELU_MUL,SIGMOID_MUL,SILU_MUL,SOFTPLUS_MUL,RELU_SQR,SNAKE_FUSE,SOFTCAP)

# One wide and one narrow architecture; all three whole in `make test-ops`.
set(binary_cases 334 -o ADD,SUB,MUL,DIV -p ${small})
set(unary_cases 357 -o ${unary_ops},${glu_ops} -p ${small})
set(rows_cases 297 -o ${gpu_rows} -p ${small})
set(mul-mat_cases 193 -o MUL_MAT -p "type_a=(f32|f16|bf16),.*(${products})")
foreach(kind binary unary rows mul-mat)
    foreach(arch gfx90a gfx1100)
        gpu_ops_test(backend-ops-${arch}-${kind} ${arch} ${${kind}_cases})
    endforeach()
    rocr_ops_test(rocr-ops-gfx1100-${kind} gfx1100 ${${kind}_cases})
endforeach()
gpu_ops_test(backend-ops-gfx942-moves  gfx942 200 partial -o CPY,CONT,DUP,REPEAT,CONCAT
    -p "type(_src)?=(f32|f16|bf16|i32),.*ne")
gpu_ops_test(backend-ops-gfx942-quants gfx942 132 -o MUL_MAT
    -p "type_a=(q2_K|q[3-8]_|iq4|mxfp4).*,m=(16|64),n=(1|2|9|77),")
gpu_ops_test(backend-ops-gfx942-chains gfx942 185 -o ${gpu_chains} -p ${small})
gpu_ops_test(backend-ops-gfx942-rope   gfx942  87 -o ROPE,ROPE_BACK -p "^(?!.*2457).*f16.*ff=1")
gpu_ops_test(backend-ops-gfx942-rows-set gfx942 126 partial -o SET_ROWS)
gpu_ops_test(backend-ops-gfx942-rows-get gfx942 35 -o GET_ROWS
    -p "type=(f32|f16|bf16|i32),n=(1|256),m=[1-9],")

foreach(arch gfx90a gfx942 gfx1100)
    set(name backend-ops-whole-${arch})
    gpu_ops_test(${name} ${arch} 3752 partial
        -o ADD,SUB,MUL,DIV,${unary_ops},${glu_ops},${gpu_rows},${gpu_moves},${gpu_chains},${long_chains},MUL_MAT)
    set_tests_properties(${name} PROPERTIES LABELS whole TIMEOUT 3600)
endforeach()
