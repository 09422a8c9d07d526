#include "tests/engine/backends/cuda/tested_kernels.h"

#include <algorithm>
#include <utility>

#include "engine/backends/cuda/kernels/columns_mma_kernel.h"
#include "engine/backends/cuda/kernels/conv3x3_mma_kernel.h"
#include "engine/backends/cuda/kernels/conv3x3_wgmma_kernel.h"
#include "engine/backends/cuda/kernels/conv3x3_ws_kernel.h"
#include "engine/backends/cuda/kernels/conv_choice.h"
#include "engine/backends/cuda/kernels/im2col_ffma_kernel.h"
#include "engine/backends/cuda/kernels/im2col_mma_kernel.h"
#include "engine/backends/cuda/kernels/pack_weights.h"
#include "engine/backends/cuda/kernels/ws_launch.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cuda/emulator.h"
#include "tests/support/test_image.h"

namespace upscaled::test {
namespace {

using cuda::BlockGrid;
using cuda::ConvParams;
using cuda::ConvShape;
using cuda::FusedConv;
using cuda::PackedConv;

template <typename Run>
void RunBlocks(const ConvParams& params, int width, int height, int columns, int threads,
               size_t shared_bytes, bool persistent, std::mt19937& random, const Run& run) {
  const BlockGrid grid = cuda::MakeBlockGrid(params, width, height);
  const int blocks = persistent ? RandomInt(random, 1, grid.count) : grid.count;
  const int column_blocks = columns == 0 ? 1 : (params.shape.Columns() + columns - 1) / columns;
  RunEmulated(
      {blocks, column_blocks, 1, threads, shared_bytes}, [&] { run(params, grid); }, random);
}

template <int kColumns>
void RunConv3x3Mma(const ConvParams& params, std::mt19937& random) {
  using Tile = cuda::Conv3x3Mma;
  RunBlocks(params, Tile::kWidth, Tile::kHeight, kColumns, Tile::kThreads,
            Tile::SharedBytes(params.shape, kColumns), true, random,
            &cuda::RunConv3x3Mma<kColumns>);
}

template <int kColumns>
void RunIm2colMma(const ConvParams& params, std::mt19937& random) {
  using Tile = cuda::Im2colMma;
  RunBlocks(params, Tile::kWidth, Tile::kHeight, kColumns, Tile::kThreads,
            cuda::Im2colSharedBytes<kColumns>(), false, random, &cuda::RunIm2colMma<kColumns>);
}

template <int kColumns>
void RunColumnsMma(const ConvParams& params, std::mt19937& random) {
  using Tile = cuda::ColumnsMma;
  RunBlocks(params, Tile::Groups(params.shape, Tile::kWidth),
            Tile::Groups(params.shape, Tile::kHeight), 0, Tile::kThreads,
            Tile::SharedBytes(kColumns), false, random, &cuda::RunColumnsMma<kColumns>);
}

template <int kIndex>
void RunConv3x3Ws(const ConvParams& params, std::mt19937& random, int stages) {
  constexpr cuda::WsVariant kVariant = cuda::kWsVariants[kIndex];
  const cuda::WsLaunch launch = cuda::MakeWsLaunch(kVariant, params, kHopper);
  if (stages == 0) stages = RandomInt(random, cuda::WsVariant::kMinStages, launch.stages);
  cuda::WsParams own{.src = launch.src,
                     .conv = params,
                     .grid = launch.grid,
                     .units = launch.units,
                     .stages = stages};
  for (int row = 0; row < 2; ++row) {
    const cuda::WsResultBoxes& boxes = launch.results[row];
    own.results[row] = {boxes.dst, boxes.residual, boxes.first_y, boxes.empty};
  }
  const int blocks = RandomInt(random, 1, std::min(launch.blocks, 4));
  RunEmulated(
      {blocks, launch.column_blocks, 1, cuda::WsVariant::kThreads,
       kVariant.SharedBytes(own.units, own.stages)},
      [&] { cuda::RunConv3x3Ws<kVariant>(own); }, random);
}

template <int... kIndices>
void RunAnyWs(const ConvParams& params, int index, std::mt19937& random, int stages,
              std::integer_sequence<int, kIndices...> /*indices*/) {
  (void)((kIndices == index && (RunConv3x3Ws<kIndices>(params, random, stages), true)) || ...);
}

template <typename Storage, int kColumns>
void RunIm2colFfma(const ConvParams& params, std::mt19937& random) {
  using Tile = cuda::Im2colFfma<kColumns>;
  RunBlocks(params, Tile::kWidth, Tile::kHeight, kColumns, Tile::kThreads, Tile::kSharedBytes,
            false, random, &cuda::RunIm2colFfma<Storage, kColumns>);
}

template <typename Storage>
void RunIm2colFfma(const ConvParams& params, int columns, std::mt19937& random) {
  columns == 64 ? RunIm2colFfma<Storage, 64>(params, random)
                : RunIm2colFfma<Storage, 16>(params, random);
}

template <cuda::WsResult kResult>
TestedKernel WsKernel(std::string_view name, bool adds_sums) {
  return {name,
          Precision::kFast,
          [](const ConvShape& shape) {
            const auto* const found = cuda::FindWsVariant(shape, /*adds=*/false, kHopper);
            return found != nullptr && found->result == kResult ? found->columns() : 0;
          },
          [](const FusedConv& layers, int /*columns*/) {
            const ConvShape shape = cuda::ShapeOf(layers);
            return cuda::PackConv3x3Ws(layers,
                                       *cuda::FindWsVariant(shape, /*adds=*/false, kHopper));
          },
          [](const ConvParams& params, int /*columns*/, std::mt19937& random) {
            RunWsVariant(params, cuda::ChooseWsVariant(params, kHopper), random);
          },
          adds_sums,
          [](const FusedConv& layers) {
            return cuda::ActivationOf(layers).kind <= cuda::ActivationKind::kSloped;
          }};
}

const TestedKernel kKernels[] = {
    {"columns_mma", Precision::kFast,
     [](const ConvShape& shape) { return cuda::ColumnsMmaColumns(shape, kHopper); },
     &cuda::PackColumnsMma,
     [](const ConvParams& params, int columns, std::mt19937& random) {
       columns == 48 ? RunColumnsMma<48>(params, random) : RunColumnsMma<32>(params, random);
     }},
    {"conv3x3_wgmma", Precision::kFast,
     [](const ConvShape& shape) { return cuda::Conv3x3WgmmaColumns(shape, kHopper); },
     [](const FusedConv& layers, int) { return cuda::PackConv3x3Wgmma(layers); },
     [](const ConvParams& params, int columns, std::mt19937& random) {
       using Tile = cuda::Conv3x3Wgmma;
       RunBlocks(params, Tile::kWidth, Tile::kHeight, columns, Tile::kThreads,
                 Tile::SharedBytes(params.shape), true, random, &cuda::RunConv3x3Wgmma);
     },
     /*adds_sums=*/true},
    WsKernel<cuda::WsResult::kPlanes>("conv3x3_ws", /*adds_sums=*/true),
    WsKernel<cuda::WsResult::kThin>("thin_ws", /*adds_sums=*/false),
    WsKernel<cuda::WsResult::kEnlarged>("enlarge_ws", /*adds_sums=*/false),
    {"conv3x3_mma", Precision::kFast,
     [](const ConvShape& shape) { return cuda::Conv3x3MmaColumns(shape, kHopper); },
     &cuda::PackConv3x3Mma,
     [](const ConvParams& params, int columns, std::mt19937& random) {
       columns == 64   ? RunConv3x3Mma<64>(params, random)
       : columns == 32 ? RunConv3x3Mma<32>(params, random)
                       : RunConv3x3Mma<16>(params, random);
     },
     /*adds_sums=*/true},
    {"im2col_mma", Precision::kFast,
     [](const ConvShape& shape) { return cuda::Im2colMmaColumns(shape, kHopper); },
     &cuda::PackIm2colMma,
     [](const ConvParams& params, int columns, std::mt19937& random) {
       columns == 64 ? RunIm2colMma<64>(params, random) : RunIm2colMma<16>(params, random);
     },
     /*adds_sums=*/true},
    {"im2col_ffma", Precision::kExact,
     [](const ConvShape& shape) { return cuda::Im2colFfmaColumns(shape); }, &cuda::PackIm2colFfma,
     [](const ConvParams& params, int columns, std::mt19937& random) {
       RunIm2colFfma<float>(params, columns, random);
     }},
    {"im2col_ffma", Precision::kFast,
     [](const ConvShape& shape) { return cuda::Im2colFfmaColumns(shape); }, &cuda::PackIm2colFfma,
     [](const ConvParams& params, int columns, std::mt19937& random) {
       RunIm2colFfma<cuda::Half>(params, columns, random);
     }},
};

}  // namespace

void RunWsVariant(const ConvParams& params, int index, std::mt19937& random, int stages) {
  RunAnyWs(params, index, random, stages, std::make_integer_sequence<int, cuda::kWsVariantCount>());
}

std::span<const TestedKernel> TestedKernels() { return kKernels; }

std::vector<FusedConv> SupportedBy(const TestedKernel& kernel, const std::vector<Layer>& layers) {
  std::vector<FusedConv> supported;
  for (const Layer& layer : layers) {
    const FusedConv fused{&layer};
    if (cuda::IsFusable(fused) && kernel.columns(cuda::ShapeOf(fused)) > 0 &&
        (kernel.takes == nullptr || kernel.takes(fused))) {
      supported.push_back(fused);
    }
  }
  EXPECT_FALSE(supported.empty()) << kernel.name << " supports none of the layers";
  return supported;
}

}  // namespace upscaled::test
