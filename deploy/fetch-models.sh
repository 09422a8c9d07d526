#!/usr/bin/env bash
# Downloads public model weights into a model repository, checked against pinned SHA-256 sums.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

manifest=$ROOT/deploy/public-models.txt
base_url=https://raw.githubusercontent.com
dir=models
max_bytes=$((512 << 20))  # of a file whose size the manifest does not say; the server takes no larger ones

usage() {
  cat <<EOF
Usage: deploy/fetch-models.sh [options] SET...|all

Downloads sets of public weights into DIR/SET, for 'upscaled --model-repository DIR'. Each set is a model, and
SET.model.json beside its files names its licence, for 'upscaled --allow-licences'.

  --dir DIR        where to put them; default: ./models
  --base-url URL   a mirror of files with relative addresses; default: $base_url
  --manifest FILE  sets, addresses, sizes, sums and licences; default: deploy/public-models.txt
  --list           print the sets and their sizes, and do nothing else

A download that was cut off goes on where it stopped. A set appears in DIR as a whole, once every file
has its sum, and replaces an older one of its name; a file with another sum is refused and thrown away.
A running server takes new sets with 'upscale models --reload'.

Sets:
$(list_sets)

Your own manifest has a line for each file: set, file name, bytes (or -), SHA-256, address, licence (or nothing).
EOF
}

list_sets() {
  awk '!/^#/ && NF { if (!($1 in bytes)) order[++n] = $1; bytes[$1] += $3; files[$1]++; licence[$1] = $6 }
       $3 == "-" { more[$1] = " and more" }
       END { for (i = 1; i <= n; i++)
               printf "  %-24s %2d files, %5.1f MB%s, %s\n", order[i], files[order[i]], bytes[order[i]] / 1e6,
                      more[order[i]], licence[order[i]] == "" ? "no licence stated" : licence[order[i]] }' "$manifest"
}

# has_sum FILE SHA256
has_sum() { [[ -f $1 ]] && sha256sum --status --check <<<"$2  $1"; }

# address URL: a relative one lies below the base URL.
address() { case $1 in http://* | https://*) echo "$1" ;; *) echo "$base_url/$1" ;; esac; }

# write_card SET FOLDER: the licence of the set's files, if the manifest states it.
write_card() {
  local licence
  licence=$(lines_of "$1" | awk '$6 != "" { print $6; exit }')
  [[ -z $licence ]] || printf '{"licence": "%s"}\n' "$licence" >"$2/$1.model.json"
}

# download FILE BYTES SHA256 URL: through FILE.part, which stays for the next run when cut off.
download() {
  local file=$1 bytes=$2 sum=$3 url=$4 part=$1.part
  has_sum "$file" "$sum" && return
  # A whole file needs no request; one that is too long cannot be a beginning.
  if [[ -f $part && $bytes != - ]] && (($(stat -c %s "$part") >= bytes)); then
    has_sum "$part" "$sum" || rm "$part"
  fi
  [[ $bytes != - ]] || bytes=$max_bytes
  has_sum "$part" "$sum" ||
    curl --fail --silent --show-error --location --retry 3 --max-filesize "$bytes" \
      --connect-timeout 20 --speed-time 30 --speed-limit 1 --continue-at - --output "$part" "$url" ||
    die "cannot download $url; run again to go on"
  if ! has_sum "$part" "$sum"; then
    local got
    got=$(sha256sum "$part")
    rm "$part"
    die "$url has the SHA-256 ${got%% *}, must be $sum: refused, nothing of this set was changed"
  fi
  mv "$part" "$file"
}

# is_there SET: whether DIR/SET has every file of the set, unchanged.
is_there() {
  local set file bytes sum url licence
  while read -r set file bytes sum url licence; do
    has_sum "$dir/$set/$file" "$sum" || return 1
  done < <(lines_of "$1")
}

lines_of() { awk -v set="$1" '!/^#/ && $1 == set' "$manifest"; }

fetch() {
  local name=$1 staging=$dir/.fetching-$1 set file bytes sum url licence
  if is_there "$name"; then
    [[ -e $dir/$name/$name.model.json ]] || write_card "$name" "$dir/$name"
    echo "$name: is there"
    return
  fi
  mkdir -p "$staging"
  while read -r set file bytes sum url licence; do
    download "$staging/$file" "$bytes" "$sum" "$(address "$url")"
  done < <(lines_of "$name")
  write_card "$name" "$staging"
  rm -rf "$dir/.old-$name"
  [[ ! -e $dir/$name ]] || mv -T "$dir/$name" "$dir/.old-$name"
  mv -T "$staging" "$dir/$name"
  rm -rf "$dir/.old-$name"
  echo "$name: fetched"
}

sets=() list=0
while (($#)); do
  case $1 in
    --dir | --base-url | --manifest)
      (($# > 1)) || die "$1 needs a value"
      case $1 in
        --dir) dir=$2 ;;
        --base-url) base_url=${2%/} ;;
        --manifest) manifest=$2 ;;
      esac
      shift
      ;;
    --list) list=1 ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) sets+=("$1") ;;
  esac
  shift
done
[[ -r $manifest ]] || die "cannot read $manifest"
if ((list)); then
  list_sets
  exit 0
fi
((${#sets[@]})) || { usage >&2; exit 2; }
command -v curl >/dev/null || die "needs curl"
known=" $(awk '!/^#/ && NF { print $1 }' "$manifest" | uniq | tr '\n' ' ')"
[[ ${sets[*]} != all ]] || read -ra sets <<<"$known"
for name in "${sets[@]}"; do
  [[ $known == *" $name "* ]] || die "there is no set '$name'; known are:$known"
done
for name in "${sets[@]}"; do fetch "$name"; done
