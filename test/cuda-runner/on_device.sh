#!/bin/sh
# make test-cuda: runs on a device what `make check` runs with the emulator. Every step runs, even if one before it failed.
# The last line counts the steps.
#   BUILD   the folder of cuda-runner, cuda-device-tests and exactness-cuda
#   NVCC    nvcc, in whose folder compute-sanitizer is looked for if PATH has none
set -u
cd "$(dirname "$0")/../.."
: "${BUILD:=build}" "${NVCC:=nvcc}"

passed=0 failed=0 skipped=0

step() {
  name=$1
  shift
  echo "== $name"
  if "$@"; then
    passed=$((passed + 1))
  else
    echo "FAIL $name: status $?"
    failed=$((failed + 1))
  fi
}

skip() {
  echo "== $1: not run, $2"
  skipped=$((skipped + 1))
}

step 'a kernel runs' "$BUILD/cuda-runner" devices
step 'kernels and models' "$BUILD/cuda-device-tests"

sanitizer=$(command -v compute-sanitizer || command -v "$(dirname "$NVCC")/compute-sanitizer")
for tool in memcheck racecheck synccheck; do
  name="kernels and models under $tool"
  if [ -n "$sanitizer" ]; then
    step "$name" "$sanitizer" --tool "$tool" --error-exitcode 1 "$BUILD/cuda-device-tests"
  else
    skip "$name" 'compute-sanitizer is not installed'
  fi
done

# exactness-cuda is built only with protobuf, which the native API needs too.
if [ ! -x "$BUILD/exactness-cuda" ]; then
  skip 'exactness of random cases' 'protobuf is not installed'
  skip 'the native API' 'protobuf is not installed'
else
  step 'exactness of random cases' "$BUILD/exactness-cuda" --cases 200
  if command -v node >/dev/null; then
    step 'the native API' env RUNNEL_RUNNER="$BUILD/cuda-runner" node --import tsx test/run.ts e2e/native-api
  else
    skip 'the native API' 'Node is not installed'
  fi
fi

echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
