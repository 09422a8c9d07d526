#include "engine/backends/reference/run_tile.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "engine/backends/reference/layers.h"
#include "engine/backends/reference/tensor.h"

namespace upscaled::reference {
namespace {

float MaxSample(SampleType type) { return type == SampleType::kU8 ? 255.0f : 65535.0f; }

float LoadSample(const ImageView& view, int x, int y, int channel) {
  const size_t i = size_t{1} * x * view.spec.channels + channel;
  switch (view.spec.type) {
    case SampleType::kU8:
      return view.row(y)[i] / 255.0f;
    case SampleType::kU16:
      return view.row_as<uint16_t>(y)[i] / 65535.0f;
    case SampleType::kF32:
      return view.row_as<float>(y)[i];
  }
  return 0;
}

void StoreSample(const MutableImageView& view, int x, int y, int channel, float value) {
  const size_t i = size_t{1} * x * view.spec.channels + channel;
  if (view.spec.type == SampleType::kF32) {
    view.row_as<float>(y)[i] = value;
    return;
  }
  const float max = MaxSample(view.spec.type);
  // Not a number compares false and becomes 0.
  const float clamped = value > 0 ? std::min(value * max, max) : 0.0f;
  const auto rounded = static_cast<uint16_t>(std::floor(clamped + 0.5f));
  if (view.spec.type == SampleType::kU8) {
    view.row(y)[i] = static_cast<uint8_t>(rounded);
  } else {
    view.row_as<uint16_t>(y)[i] = rounded;
  }
}

// The padded input under dst.region: pixels outside the image repeat its edge.
void LoadInput(const Network& network, const TileTask& task, Tensor& dst) {
  const Size image = task.plan->image;
  for (int y = dst.region.y; y < dst.region.bottom(); ++y) {
    const int src_y = std::clamp(y - network.pad_px, 0, image.height - 1) - task.src_rect.y;
    for (int x = dst.region.x; x < dst.region.right(); ++x) {
      const int src_x = std::clamp(x - network.pad_px, 0, image.width - 1) - task.src_rect.x;
      for (int c = 0; c < dst.channels; ++c) {
        dst.row(c, y)[x - dst.region.x] = LoadSample(task.src, src_x, src_y, c);
      }
    }
  }
}

void StoreResult(const Tensor& result, const MutableImageView& dst) {
  for (int c = 0; c < result.channels; ++c) {
    for (int y = 0; y < result.region.height; ++y) {
      const float* row = result.row(c, result.region.y + y);
      for (int x = 0; x < result.region.width; ++x) StoreSample(dst, x, y, c, row[x]);
    }
  }
}

ChannelSums SumUp(const Tensor& src, const Rect& part) {
  ChannelSums sums(src.channels);
  for (int c = 0; c < src.channels; ++c) {
    for (int y = part.y; y < part.bottom(); ++y) {
      for (int x = part.x; x < part.right(); ++x) {
        sums.Add(c, ChannelSums::Round(src.at(c, x, y)));
      }
    }
  }
  return sums;
}

}  // namespace

void RunTile(const Network& network, const TileTask& task,
             absl::FunctionRef<void(size_t layer)> layer_done) {
  const TilePlan& plan = *task.plan;
  const PoolingPass& pass = *task.pooling;
  std::vector<Tensor> tensors;
  tensors.reserve(network.layers.size());
  auto means = pass.means.begin();
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    if (layer.op == Op::kGlobalAveragePool && means == pass.means.end()) {
      *pass.partial_sums = SumUp(tensors[layer.inputs[0]], plan.partial_sum_rects[pass.number()]);
      return;
    }
    Tensor& dst = tensors.emplace_back(plan.regions[i], layer.out_channels, plan.layer_sizes[i]);
    if (layer.op == Op::kInput) {
      LoadInput(network, task, dst);
    } else {
      if (layer.op == Op::kGlobalAveragePool) {
        const ChannelMeans& known = *means++;
        if (!dst.region.empty()) dst.values = known;  // none, where it was pooled again
      }
      std::vector<const Tensor*> inputs;
      for (const int input : layer.inputs) inputs.push_back(&tensors[input]);
      ComputeLayer(layer, inputs, dst);
    }
    layer_done(i);
  }
  StoreResult(tensors.back(), task.dst);
}

}  // namespace upscaled::reference
