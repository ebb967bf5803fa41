#!/bin/sh
# topology.sh <directory> [<gfx version> [<name>]]: writes what the kernel's GPU driver says in
# /sys/class/kfd/kfd/topology of a machine with one CPU and one GPU, for HSA_MODEL_TOPOLOGY. ROCr wants
# the GPU even where only the NPU is used. The default is 110000 gfx1100.
#
# Held by ROCr 7.2.4: gpu_id is the node's number and one; the GPU's memory is public (heap_type 1),
# bits 12 and 13 of capability say 2 (the doorbell's kind), and bit 30 is 0; sizes are plain integers.
set -eu

dir=$1
gfx=${2:-110000}
name=${3:-gfx1100}
memory=$(awk '/^MemTotal/ { printf "%d", $2 }' /proc/meminfo)

# write <file> <name value>...: a file with one property in each line
write() {
    file=$dir/$1
    shift
    mkdir -p "$(dirname "$file")"
    while [ $# -gt 1 ]; do
        echo "$1 $2"
        shift 2
    done >"$file"
}

mkdir -p "$dir/nodes/0" "$dir/nodes/1"
echo 1 >"$dir/generation_id"
write system_properties platform_oem 1 platform_id 1 platform_rev 1

echo 0 >"$dir/nodes/0/gpu_id"
echo >"$dir/nodes/0/name"
write nodes/0/properties cpu_cores_count "$(nproc)" simd_count 0 mem_banks_count 1 caches_count 0 \
    io_links_count 1 cpu_core_id_base 0 simd_id_base 0 max_waves_per_simd 0 lds_size_in_kb 0 \
    gds_size_in_kb 0 wave_front_size 0 array_count 0 simd_arrays_per_engine 0 cu_per_simd_array 0 \
    simd_per_cu 0 max_slots_scratch_cu 0 vendor_id 0 device_id 0 location_id 0 drm_render_minor 0 \
    max_engine_clk_ccompute 2000
write nodes/0/mem_banks/0/properties heap_type 0 size_in_bytes $((memory * 1024)) flags 0 width 64 \
    mem_clk_max 2400

echo 2 >"$dir/nodes/1/gpu_id"
echo "$name" >"$dir/nodes/1/name"
write nodes/1/properties cpu_cores_count 0 simd_count 192 mem_banks_count 1 caches_count 0 \
    io_links_count 1 cpu_core_id_base 0 simd_id_base 2147487744 max_waves_per_simd 16 lds_size_in_kb 64 \
    gds_size_in_kb 0 num_gws 64 wave_front_size 32 array_count 12 simd_arrays_per_engine 2 \
    cu_per_simd_array 8 simd_per_cu 2 max_slots_scratch_cu 32 gfx_target_version "$gfx" vendor_id 4098 \
    device_id 29772 location_id 768 domain 0 drm_render_minor 128 hive_id 0 num_sdma_engines 0 \
    num_sdma_xgmi_engines 0 num_sdma_queues_per_engine 6 num_cp_queues 8 max_engine_clk_fcompute 2482 \
    local_mem_size 0 fw_version 550 capability 8216 debug_prop 1495 sdma_fw_version 19 unique_id 1234 \
    num_xcc 1 max_engine_clk_ccompute 2000
write nodes/1/mem_banks/0/properties heap_type 1 size_in_bytes 8589934592 flags 0 width 384 \
    mem_clk_max 1249

for node in 0 1; do
    write nodes/$node/io_links/0/properties type 2 version_major 0 version_minor 0 node_from $node \
        node_to $((1 - node)) weight 20 min_latency 0 max_latency 0 min_bandwidth 0 max_bandwidth 0 \
        recommended_transfer_size 0 flags 1
done
