#include "engine/model/architectures/esrgan.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "engine/base/status_macros.h"
#include "engine/model/architectures/planes.h"
#include "engine/model/limits.h"

namespace upscaled {
namespace {

constexpr float kResidual = 0.2f;  // what is left of a block's result before it is added
constexpr int kDenseBlocks = 3, kConvs = 5;
constexpr NetworkBuilder::ConvOptions kLeaky = {.activation = Activation::kLeakyRelu,
                                                .slope = 0.2f};

// The names of the modules. Patterns: block, dense block from 1, convolution.
struct Spelling {
  std::string first;
  const char* conv;  // in a dense block
  std::string trunk;
  std::vector<std::string> ups;
  std::string hr, last;
  const char* skip = "";  // in a dense block of ESRGAN+

  // The first convolution of a block.
  std::string First(int block) const { return absl::Substitute(conv, block, 1, "conv1"); }
};

bool HasWeight(const TensorFile& file, const std::string& module) {
  return file.Find(module + ".weight") != nullptr;
}

int CountBlocks(const TensorFile& file, const Spelling& spelling) {
  int blocks = 0;
  while (HasWeight(file, spelling.First(blocks))) ++blocks;
  return blocks;
}

std::vector<std::string> Ups(const TensorFile& file, const char* prefix) {
  std::vector<std::string> ups;
  for (int i = 1; HasWeight(file, absl::StrCat(prefix, i)); ++i) {
    ups.push_back(absl::StrCat(prefix, i));
  }
  return ups;
}

Spelling RealEsrgan(const TensorFile& file) {
  return {.first = "conv_first",
          .conv = "body.$0.rdb$1.$2",
          .trunk = "conv_body",
          .ups = Ups(file, "conv_up"),
          .hr = "conv_hr",
          .last = "conv_last"};
}

Spelling Bsrgan(const TensorFile& file) {
  return {.first = "conv_first",
          .conv = "RRDB_trunk.$0.RDB$1.$2",
          .trunk = "trunk_conv",
          .ups = Ups(file, "upconv"),
          .hr = "HRconv",
          .last = "conv_last"};
}

// Numbers of a sequence; resizes and activations count as well: 3 and 6 enlarge x4, 8 and 10
// follow.
Spelling Esrgan(const TensorFile& file) {
  Spelling spelling{.first = "model.0",
                    .conv = "model.1.sub.$0.RDB$1.$2.0",
                    .skip = "model.1.sub.$0.RDB$1.conv1x1"};
  spelling.trunk = absl::StrCat("model.1.sub.", CountBlocks(file, spelling));
  constexpr int kMaxNumber = 32;
  for (int i = 2; i < kMaxNumber; ++i) {
    const std::string module = absl::StrCat("model.", i);
    if (HasWeight(file, module)) spelling.ups.push_back(module);
  }
  for (std::string* end : {&spelling.last, &spelling.hr}) {
    if (spelling.ups.empty()) break;
    *end = std::move(spelling.ups.back());
    spelling.ups.pop_back();
  }
  return spelling;
}

constexpr Spelling (*kSpellings[])(const TensorFile&) = {RealEsrgan, Bsrgan, Esrgan};

absl::StatusOr<Spelling> FindSpelling(const TensorFile& file) {
  for (const auto spell : kSpellings) {
    Spelling spelling = spell(file);
    if (HasWeight(file, spelling.first) && CountBlocks(file, spelling) > 0) return spelling;
  }
  return absl::InvalidArgumentError("lacks the tensors of the first dense block");
}

// The planes of the result.
int64_t PlanesOfResult(const TensorFile& file, const Spelling& spelling) {
  const TensorInfo* last = file.Find(spelling.last + ".weight");
  const int64_t planes = last == nullptr || last->shape.size() != 4 ? 0 : last->shape[0];
  return ArePlanes(planes) ? planes : 3;
}

// The side of the first convolution's blocks of pixels.
absl::StatusOr<int> UnshuffleFactor(const TensorFile& file, const Spelling& spelling) {
  const TensorInfo& first = *file.Find(spelling.first + ".weight");
  const int64_t planes = first.shape.size() == 4 ? first.shape[1] : 0;
  const int64_t wanted = PlanesOfResult(file, spelling);
  for (const int factor : {1, 2, 4}) {
    if (planes == wanted * factor * factor) return factor;
  }
  return absl::UnimplementedError(absl::StrCat("takes ", planes, " planes, must be ", wanted,
                                               ", or ", 4 * wanted, " or ", 16 * wanted,
                                               " of blocks of pixels"));
}

// Names as AddRrdb takes them, of dense block `dense`.
int AddDenseBlock(NetworkBuilder& builder, const std::string& conv, const std::string& skip_names,
                  int dense, int x) {
  // ESRGAN+ adds a 1x1 convolution of the input to the second result, and the second to the fourth.
  const std::string skip = absl::Substitute(skip_names, dense);
  const bool plus = HasWeight(builder.file(), skip);
  const auto name = [&](int index) {
    return absl::Substitute(conv, dense, absl::StrCat("conv", index + 1));
  };
  std::vector<int> parts = {x};
  for (int i = 0; i < kConvs - 1; ++i) {
    const int joined = i == 0 ? x : builder.Concat(parts);
    int y = builder.Conv(joined, name(i), kLeaky);
    if (plus && i == 1) y = builder.Add(y, builder.Conv(x, skip, {}));
    if (plus && i == 3) y = builder.Add(y, parts[2]);
    parts.push_back(y);
  }
  const int last = builder.Conv(builder.Concat(parts), name(kConvs - 1), {.factor = kResidual});
  return builder.Add(last, x);
}

}  // namespace

int AddRrdb(NetworkBuilder& builder, int x, const std::string& conv, const std::string& skip) {
  int y = x;
  for (int dense = 1; dense <= kDenseBlocks; ++dense) {
    y = AddDenseBlock(builder, conv, skip, dense, y);
  }
  return builder.Add(builder.Affine(y, {kResidual}, {0.0f}), x);
}

// SPSR has the same tensors, and a second branch's.
bool RecogniseEsrgan(const TensorFile& file) {
  return FindSpelling(file).ok() && !file.Has("f_HR_conv1.0.weight");
}

absl::StatusOr<int> EsrganScale(const TensorFile& file) {
  ASSIGN_OR_RETURN(const Spelling spelling, FindSpelling(file));
  ASSIGN_OR_RETURN(const int factor, UnshuffleFactor(file, spelling));
  const size_t doublings = spelling.ups.size();
  const int enlarged = doublings <= 8 ? 1 << doublings : 0;
  if (enlarged % factor == 0 && enlarged / factor >= 1 && enlarged / factor <= kMaxScale) {
    return enlarged / factor;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "doubles ", doublings, " times what it takes from ", factor, "x", factor, " pixels"));
}

void BuildEsrgan(NetworkBuilder& builder) {
  const TensorFile& file = builder.file();
  const auto spelling = FindSpelling(file);
  if (!spelling.ok()) return builder.Fail(spelling.status());
  const auto factor = UnshuffleFactor(file, *spelling);
  if (!factor.ok()) return builder.Fail(factor.status());

  const absl::StatusOr<int> scale = EsrganScale(file);
  if (!scale.ok()) return builder.Fail(scale.status());
  const int64_t planes = PlanesOfResult(file, *spelling);
  const int image = builder.Input();
  const int seen = builder.PixelUnshuffle(PlanesOf(builder, image, planes), *factor);
  const int first = builder.Conv(seen, spelling->first, {});
  int x = first;
  const int blocks = CountBlocks(file, *spelling);
  for (int block = 0; block < blocks && builder.ok(); ++block) {
    x = AddRrdb(builder, x, absl::Substitute(spelling->conv, block, "$0", "$1"),
                absl::Substitute(spelling->skip, block, "$0"));
  }
  x = builder.Add(builder.Conv(x, spelling->trunk, {}), first);
  for (const std::string& up : spelling->ups) x = builder.Conv(builder.Nearest(x, 2), up, kLeaky);
  x = builder.Conv(builder.Conv(x, spelling->hr, kLeaky), spelling->last, {});
  RgbOf(builder, image, x, planes, *scale);
}

}  // namespace upscaled
