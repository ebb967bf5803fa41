#!/bin/sh
# mnist-train.sh <mnist-train> <mnist-eval> <data>: a short training on the NPU and on the CPU. With equal seeds the
# losses must go down together: a device that used old weights for a step would be seen at once.
set -eu
train=$1
eval=$2
data=$3
if [ ! -f "$data/train-images-idx3-ubyte" ] || [ ! -f "$data/t10k-images-idx3-ubyte" ]; then
    echo "skipped: no digits in $data; sh cmake/mnist.sh .deps gets them"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for device in CPU HSA0; do
    "$train" --data "$data" --device $device --threads 1 --limit 160 --validate 100 --batch 32 --hidden 24 --epochs 4 \
        --rate 0.01 --out "$work/$device.gguf" >"$work/$device" 2>&1 || { cat "$work/$device" >&2; exit 1; }
    cat "$work/$device"
    sed -n 's/^epoch .* loss \([0-9.]*\) .*/\1/p' "$work/$device" >"$work/$device.loss"
done
grep -q 'nodes on HSA0' "$work/HSA0"
paste "$work/CPU.loss" "$work/HSA0.loss" | awk '
    { n++; apart = ($1 - $2) / $1; if (apart < 0) apart = -apart; if (apart > 0.02) bad = 1; last = $2; if (n == 1) first = $2 }
    END {
        if (n != 4) { print "not four epochs"; exit 1 }
        if (bad) { print "the losses are more than 2 % apart"; exit 1 }
        if (last > 0.6 * first) { print "the loss did not go down"; exit 1 }
    }'
"$eval" --data "$data" --model "$work/HSA0.gguf" --limit 200 --device CPU --reference none --show 0 >"$work/out"
grep -Eq '^  CPU +[6-9][0-9]\.' "$work/out" || { cat "$work/out"; echo "the network learned too little"; exit 1; }
