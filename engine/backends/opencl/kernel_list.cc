#include "engine/backends/opencl/kernel_list.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "engine/backends/opencl/conv.h"
#include "engine/backends/opencl/elementwise.h"
#include "engine/backends/opencl/pooling.h"

namespace upscaled::opencl {
namespace {

// A layer has at most 16 choices together. The first runs if no better one is known.
constexpr LaunchConfig kRowConfigs[] = {{4, {8, 1, 4}},  {4, {1, 1, 1}}, {4, {32, 1, 1}},
                                        {8, {8, 1, 4}},  {8, {1, 1, 1}}, {8, {32, 1, 1}},
                                        {2, {64, 1, 1}}, {1, {32, 1, 4}}};
constexpr LaunchConfig kBlockConfigs[] = {{4, {8, 1, 4}},  {4, {1, 1, 1}}, {4, {8, 1, 1}},
                                          {4, {32, 1, 1}}, {4, {8, 8, 1}}, {4, {4, 4, 8}},
                                          {4, {16, 1, 8}}, {4, {4, 1, 16}}};

constexpr LaunchConfig kItemConfigs[] = {{1, kItemGroup}};

constexpr KernelEntry kKernels[] = {
    {{"winograd_row4"}, &WinogradSupports, &MakeWinograd, kBlockConfigs},
    {{"conv3x3"}, &Conv3x3Supports, &MakeConv3x3, kRowConfigs},
    {{"conv"}, &ConvSupports, &MakeConv, kRowConfigs},
    {{"depthwise"}, &DepthwiseSupports, &MakeDepthwise, kRowConfigs},
    {{"grouped"}, &GroupedSupports, &MakeGrouped, kRowConfigs},
    {{"transposed"}, &TransposedSupports, &MakeTransposed, kRowConfigs},
    {{"elementwise"}, &ElementwiseSupports, &MakeElementwise, kItemConfigs},
    {{"pooling"}, &PoolingSupports, &MakePooling, kItemConfigs},
};

}  // namespace

std::string Describe(const LaunchConfig& config) {
  return absl::StrFormat("%d pixels, groups %dx%dx%d", config.pixels, config.group[0],
                         config.group[1], config.group[2]);
}

std::span<const KernelEntry> ListKernels() { return kKernels; }

const KernelEntry& Conv3x3Kernel() {
  return *std::ranges::find(kKernels, "conv3x3", &KernelEntry::name);
}

const LaunchConfig& ConfigOf(const KernelChoice& choice) {
  return static_cast<const KernelEntry&>(*choice.info).configs[choice.config];
}

absl::StatusOr<std::unique_ptr<LayerKernel>> Create(Context& context, const Layer& layer,
                                                    Precision precision,
                                                    const KernelChoice& choice) {
  const auto& info = static_cast<const KernelEntry&>(*choice.info);
  return info.create(context, layer, precision, ConfigOf(choice));
}

}  // namespace upscaled::opencl
