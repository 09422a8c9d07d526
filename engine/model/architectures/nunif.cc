#include "engine/model/architectures/nunif.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace upscaled {
namespace {

// Convolutions are the modules of even numbers, activations the others.
constexpr int kLastNumber = 12;
constexpr NetworkBuilder::ConvOptions kLeakyValid = {
    .padding_px = 0, .activation = Activation::kLeakyRelu, .slope = 0.1f};

std::string NetModule(int number) { return absl::StrCat("net.", number); }

// The side of the last kernel; 0 for files of other networks.
int64_t LastKernelPx(const TensorFile& file) {
  for (int number = 0; number <= kLastNumber; number += 2) {
    const TensorInfo* weight = file.Find(NetModule(number) + ".weight");
    if (weight == nullptr || weight->shape.size() != 4) return 0;
    if (number == kLastNumber) return weight->shape[2];
  }
  return 0;
}

int AddValidConvs(NetworkBuilder& builder) {
  int x = builder.Input();
  for (int i = 0; i < kLastNumber; i += 2) x = builder.Conv(x, NetModule(i), kLeakyValid);
  return x;
}

}  // namespace

bool RecogniseVgg7(const TensorFile& file) { return LastKernelPx(file) == 3; }
bool RecogniseUpconv7(const TensorFile& file) { return LastKernelPx(file) == 4; }
absl::StatusOr<int> Vgg7Scale(const TensorFile&) { return 1; }
absl::StatusOr<int> Upconv7Scale(const TensorFile&) { return 2; }

void BuildVgg7(NetworkBuilder& builder) {
  builder.Conv(AddValidConvs(builder), NetModule(kLastNumber), {.padding_px = 0});
}

void BuildUpconv7(NetworkBuilder& builder) {
  builder.ConvTranspose(AddValidConvs(builder), NetModule(kLastNumber),
                        {.stride_px = 2, .padding_px = 3});
}

}  // namespace upscaled
