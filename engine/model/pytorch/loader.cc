#include "engine/model/pytorch/loader.h"

#include <utility>

#include "engine/model/pytorch/stacked_file.h"
#include "engine/model/pytorch/zip_file.h"

namespace upscaled {
namespace {

constexpr std::string_view kZipMagic("PK\3\4");
constexpr char kPickleMagic = '\x80';  // the opcode PROTO

}  // namespace

absl::StatusOr<std::unique_ptr<TensorFile>> ParsePytorch(std::string bytes) {
  return bytes.starts_with(kZipMagic) ? pytorch::ParseZipFile(std::move(bytes))
                                      : pytorch::ParseStackedFile(std::move(bytes));
}

bool LooksLikePytorch(std::string_view head) {
  return head.starts_with(kZipMagic) || head.starts_with(kPickleMagic);
}

}  // namespace upscaled
