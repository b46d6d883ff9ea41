#!/usr/bin/env bash
# What is to be known of several GPUs, in one call: what a killed, a stopped and a disagreeing rank lead to, runs of
# `lockstep train` that go on with another number, also when a rank was killed, answers of language models, then for 1,
# 2, 4, ... GPUs, as many as are there, equal weights (a batch of one size in 8 shards, so also strong scaling) and weak
# scaling beside the same step with the sums of NCCL, PyTorch DDP and FSDP2, and how large a model fits where parameters
# are divided (ZeRO 3).
#
#   scripts/several_gpus.sh [BUILD]      BUILD: a folder with bin/ (default: build/release), or of scripts/device_pack.sh
#
# After LIMIT=540 seconds what is left is skipped, and said to be. PARTS="failures resume killed language equal weak
# memory", STEPS=48 after 2, WEAK_STEPS=10, MODELS="resnet50 gpt124m", DTYPES="f32 bf16", GPUS=8 and ENGINE=nccl are what is
# used unless said; LANGUAGE names GGUF files. DEVICE=cpu ENGINE=tcp MODELS=small tries the script without GPUs. Lines are "what key=value ..."; the exit status tells whether all
# weights were equal and all failures were told, and nothing was skipped.
set -u
cd "$(dirname "$0")/.." || exit
build=$(realpath "${1:-build/release}")
bench=$build/bin/bench/dist_bench
[ -x "$bench" ] || bench=$build/bin/dist_bench
[ -d "$build/lib" ] && export LD_LIBRARY_PATH=$build/lib:${LD_LIBRARY_PATH:-}
device=${DEVICE:-cuda}
export LOCKSTEP_DIST_ENGINE=${ENGINE:-nccl} NCCL_NVLS_ENABLE=0
LOCKSTEP_DIST_SECRET=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
export LOCKSTEP_DIST_SECRET
models=${MODELS:-resnet50 gpt124m}
if [ "$device" = cuda ]; then there=$(nvidia-smi -L | wc -l); else there=$(nproc); fi
most=$((there < ${GPUS:-8} ? there : ${GPUS:-8}))
[ "$most" -gt 0 ] || { echo "several_gpus.sh: there is no GPU" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
wrong=0
skipped=0
# is_due PART WHAT: whether PART was asked for and there is time for it.
is_due() {
  [[ " ${PARTS:-failures resume killed language equal weak memory} " == *" $1 "* ]] || return 1
  [ $SECONDS -lt "${LIMIT:-540}" ] && return 0
  skipped=$((skipped + 1))
  echo "skipped $*"
  return 1
}
ratio() { awk "BEGIN { printf \"%.3f\", ${1:-0} / ${2:-1} }"; }
say() { printf '%s seconds=%s\n' "$*" "$SECONDS"; }
value() { sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",}]*\).*/\1/p" | tail -n 1; }
# ranks COUNT ARGUMENTS...: what rank 0 of dist_bench printed, on one line.
ranks() {
  local count=$1
  shift
  if [ "$count" = 1 ]; then "$bench" --device "$device" "$@" 2>"$folder/error"; else
    examples/run_ranks.sh "$count" "$bench" --device "$device" "$@" 2>"$folder/error"; fi || head -c 400 "$folder/error" | tr '\n' ' '
}
# torch COUNT ARGUMENTS...: PyTorch's line for as many GPUs.
has_torch=$([ "$device" = cuda ] && python3 -c 'import torch' 2>/dev/null && echo yes)
torch() {
  local count=$1
  shift
  [ -n "$has_torch" ] || return 0
  timeout 90 python3 -m torch.distributed.run --nproc-per-node "$count" --master-port 29511 bench/peers/torch_ddp.py --steps 15 "$@" 2>/dev/null
}
# say_equal WHAT HASH EXPECTED: whether they are, which else is counted.
say_equal() {
  local same=yes
  if [ -z "$2" ] || [ "$2" != "$3" ]; then
    same=NO
    wrong=$((wrong + 1))
    head -c 400 "$folder/error"
  fi
  say "$1 same=$same"
}
batch_of() { case $1 in resnet50) echo 64 ;; *) echo 8 ;; esac; }

# The others must end with an error that names the rank, within the deadline.
for how in mismatch kill stop; do
  [ "$most" -gt 1 ] || break
  is_due failures $how || continue
  processes=()
  begin=$SECONDS
  for ((rank = 0; rank < most; ++rank)); do
    limit=(timeout -s KILL 40)
    [ $rank -lt $((most - 1)) ] || limit=()  # the one that stops is ended below
    LOCKSTEP_RANK=$rank LOCKSTEP_LOCAL_RANK=$rank LOCKSTEP_WORLD_SIZE=$most LOCKSTEP_LOCAL_SIZE=$most MASTER_PORT=29513 \
      "${limit[@]}" "$bench" --device "$device" --model small --batch 4 --warm-up 3 --steps 200 --deadline 10 --misbehave $how \
      >"$folder/$how.$rank" 2>&1 &
    processes+=($!)
  done
  told=0
  for ((rank = 0; rank < most - 1; ++rank)); do wait "${processes[$rank]}" || told=$((told + 1)); done
  kill -9 "${processes[$((most - 1))]}" 2>/dev/null
  wait "${processes[$((most - 1))]}" 2>/dev/null
  if [ $told != $((most - 1)) ] || ! grep -q "dist: .*rank $((most - 1)) " "$folder/$how.0"; then
    wrong=$((wrong + 1))
    told="$told:WRONG"
  fi
  say "failure how=$how told=$told after=$((SECONDS - begin)) text=$(head -n 1 "$folder/$how.0")"
done
# The command: one hash for every number of ranks, also where a run goes on with another number.
train() { "$build/bin/lockstep" train --data digits --arch lenet --shards 8 --device "$device" --json "$@" 2>"$folder/error" | value weights_hash; }
expected=""
if is_due resume; then
  train --epochs 1 --out "$folder/one" >/dev/null
  expected=$(train --epochs 2 --resume --out "$folder/one")  # more epochs than were planned: another schedule than that of 2
fi
for ((count = 2; count <= most; count *= 2)); do
  is_due resume "gpus=$count" || continue
  train --epochs 1 --ranks $count --out "$folder/$count" >/dev/null
  for next in $((count / 2)) $count; do
    cp -r "$folder/$count" "$folder/$count-$next"
    hash=$(train --epochs 2 --ranks "$next" --zero 3 --resume --out "$folder/$count-$next")
    say_equal "resumed gpus=$count then=$next weights=$hash" "$hash" "$expected"
  done
done
# From two to all at once.
if [ "$most" -gt 2 ] && is_due resume "gpus=2 then=$most"; then
  cp -r "$folder/2" "$folder/2-$most"
  hash=$(train --epochs 2 --ranks "$most" --zero 1 --resume --out "$folder/2-$most")
  say_equal "resumed gpus=2 then=$most weights=$hash" "$hash" "$expected"
fi
# One process is killed when there is a checkpoint: the others go on, to the weights of a run that nothing happened to.
if [ "$most" -gt 1 ] && is_due killed; then
  expected=$(train --epochs 4 --out "$folder/whole")
  mkdir -p "$folder/killed"
  train --epochs 4 --ranks "$most" --checkpoint-every 20 --restarts 3 --out "$folder/killed" >"$folder/hash" &
  parent=$!
  until compgen -G "$folder/killed/checkpoints/step-*" >/dev/null || ! kill -0 $parent 2>/dev/null; do sleep 0.1; done
  victim=$(pgrep -f "lockstep train .*$folder/killed" | tail -n 1)
  kill -9 "$victim"
  wait $parent
  text=$(grep -m 1 'going on' "$folder/error" | tr ' ' '_')
  hash=${text:+$(cat "$folder/hash")}  # nobody was killed: nothing is shown
  say_equal "killed gpus=$most text=$text weights=$hash" "$hash" "$expected"
fi
# A model divided among GPUs answers with the tokens of one.
for file in ${LANGUAGE:-}; do
  expected=""
  for ((count = 1; count <= most; count *= 2)); do
    is_due language "$file gpus=$count" || continue
    hash=$("$build/bin/lockstep" generate --model "$file" --device "$device" --max-tokens 60 --json --ranks $count "Once upon a time" 2>"$folder/error" | value tokens_hash)
    [ -n "$expected" ] || expected=$hash
    say_equal "language model=$(basename "$file") gpus=$count tokens=$hash" "$hash" "$expected"
  done
done

for model in $models; do
  for dtype in ${DTYPES:-f32 bf16}; do
    bits=$([ "$dtype" = bf16 ] && echo --bf16)
    all=$(batch_of "$model")
    expected=""
    for ((count = 1; count <= most; count *= 2)); do
      for zero in 0 1 3; do
        [ "$count" != 1 ] || [ $zero = 0 ] || continue
        is_due equal "$model $dtype gpus=$count zero=$zero" || continue
        # shellcheck disable=SC2086
        line=$(ranks "$count" --model "$model" --batch $((all / count)) --shards 8 --zero $zero --warm-up 2 --steps "${STEPS:-48}" $bits)
        hash=$(value weights <<<"$line")
        [ -n "$expected" ] || expected=$hash
        peer=""  # DDP beside ZeRO 0, FSDP2 beside ZeRO 3
        # shellcheck disable=SC2046,SC2086
        [ $zero = 1 ] || peer=$(torch "$count" --model "$model" --batch $((all / count)) $bits $([ $zero = 3 ] && echo --sharded))
        say_equal "strong model=$model dtype=$dtype gpus=$count zero=$zero ms=$(value median_ms <<<"$line") peak_mb=$(value peak_mb <<<"$line") torch_ms=$(value median_ms <<<"$peer") torch_peak_mb=$(value peak_mb <<<"$peer") weights=$hash" "$hash" "$expected"
      done
    done
  done
done

for model in $models; do
  for dtype in ${DTYPES:-f32 bf16}; do
    bits=$([ "$dtype" = bf16 ] && echo --bf16)
    each=$(batch_of "$model")
    [ "$model$dtype" != gpt124mf32 ] || each=4
    one=""
    for ((count = 1; count <= most; count *= 2)); do
      is_due weak "$model $dtype gpus=$count" || continue
      # shellcheck disable=SC2206
      step=(--model "$model" --batch "$each" --warm-up 3 --steps "${WEAK_STEPS:-10}" $bits)
      line=$(ranks "$count" "${step[@]}")
      ms=$(value median_ms <<<"$line")
      one=${one:-$ms}
      say "weak model=$model dtype=$dtype gpus=$count batch_each=$each ms=$ms scaling=$(ratio "$one" "$ms") peak_mb=$(value peak_mb <<<"$line")"
      if [ "$count" -gt 1 ]; then
        alone=$(value exchange_ms <<<"$line")
        library=""
        [ "$device" != cuda ] || library=$(ranks "$count" "${step[@]}" --sums nccl | value median_ms)
        divided=$(ranks "$count" "${step[@]}" --zero 3)
        say "  exchange_alone_ms=$alone not_hidden_ms=$(awk "BEGIN { print ${ms:-0} - ${one:-0} }") library_ms=$library over_library=$(ratio "$ms" "$library") zero3_ms=$(value median_ms <<<"$divided") zero3_peak_mb=$(value peak_mb <<<"$divided")"
      fi
      for kind in ddp fsdp; do
        [ $kind = ddp ] || [ "$count" -gt 1 ] || continue
        # shellcheck disable=SC2046,SC2086
        peer=$(torch "$count" --model "$model" --batch "$each" $bits $([ $kind = fsdp ] && echo --sharded))
        say "  torch_$kind gpus=$count ms=$(value median_ms <<<"$peer") peak_mb=$(value peak_mb <<<"$peer")"
      done
    done
  done
done

# A GPT on one GPU, and one of 0.98 times as many blocks for each GPU on all of them, with two 1.8 times the parameters, since
# embeddings do not grow: no GPU must need more.
depth=${DEPTH:-24}
width=${WIDTH:-1024}
if [ "$most" -gt 1 ] && is_due memory "depth=$depth"; then
  larger=$((depth * 98 * most / 100))
  one=$(ranks 1 --model gpt --width "$width" --depth "$depth" --batch 1 --checkpoint --warm-up 1 --steps 2 | value peak_mb)
  for zero in 0 1 3; do
    is_due memory "zero=$zero" || continue
    all=$(ranks "$most" --model gpt --width "$width" --depth "$larger" --batch 1 --checkpoint --warm-up 1 --steps 2 --zero $zero | value peak_mb)
    fits=NO
    if [ -n "$all" ] && [ -n "$one" ] && [ "${all%.*}" -le "${one%.*}" ]; then fits=yes; fi
    [ $zero != 3 ] || [ $fits = yes ] || wrong=$((wrong + 1))
    say "memory gpus=$most zero=$zero depth=$larger peak_mb=$all one_gpu_depth=$depth one_gpu_peak_mb=$one fits=$fits"
  done
fi

say "end wrong=$wrong skipped=$skipped gpus=$most"
[ $((wrong + skipped)) = 0 ]
