#!/bin/sh
# A compiler launcher for nvcc: ptxas's report on each kernel goes to OBJECT.ptxas, all else through.
for argument in "$@"; do
  [ "$before" = -o ] && object=$argument
  before=$argument
done
"$@" 2>"$object.messages"
code=$?
grep -E '^ptxas info|bytes stack frame' "$object.messages" >"$object.ptxas"
grep -vE '^ptxas info|bytes stack frame' "$object.messages" >&2
rm -f "$object.messages"
exit $code
