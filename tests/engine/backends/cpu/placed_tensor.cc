#include "tests/engine/backends/cpu/placed_tensor.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace upscaled::test {
namespace {

constexpr uint32_t kNotNumbers = 0x7fff7fff;  // NaN as a float and as two halves

constexpr size_t kGuardFloats = 1024;  // around all planes; also what a register tile may read

}  // namespace

PlacedTensor::PlacedTensor(int channels, Size layer, cpu::Margin margin, Kind kind) {
  tensor_.layer_width_px = layer.width;
  tensor_.layer_height_px = tensor_.ring_rows = layer.height;
  tensor_.channels = channels;
  tensor_.half = kind == Kind::kHalves;
  const bool one_plane = kind == Kind::kInterleaved || channels <= cpu::kMaxInterleavedChannels;
  tensor_.pixel_stride = one_plane ? channels : cpu::kPlaneChannels;
  const size_t left = margin.left_px * tensor_.pixel_stride;
  const size_t right = margin.right_px * tensor_.pixel_stride;
  const size_t width = layer.width * tensor_.pixel_stride;
  tensor_.row_stride = (left + width + right + 15) / 16 * 16 + 16;
  tensor_.plane_stride = tensor_.row_stride * (layer.height + 1) + 16;

  storage_ = cpu::HugeBuffer(tensor_.plane_stride * tensor_.planes() + 2 * kGuardFloats);
  std::fill_n(storage_.data(), storage_.size(), std::bit_cast<float>(kNotNumbers));
  tensor_.data = storage_.data() + kGuardFloats + left;
  for (int plane = 0; plane < tensor_.planes(); ++plane) {
    float* row = tensor_.data + plane * tensor_.plane_stride;
    for (int y = 0; y < layer.height; ++y, row += tensor_.row_stride) {
      std::fill_n(row - left, left, 0.0f);
      std::fill_n(row + width, right, 0.0f);
    }
    std::fill_n(row - left, left + width + right, 0.0f);
  }
  original_.assign(storage_.data(), storage_.data() + storage_.size());
}

const float* PlacedTensor::Address(int channel, int x, int y) const {
  const float* pixel = tensor_.At(y, x);
  return tensor_.blocked() ? pixel + channel / 16 * tensor_.plane_stride + channel % 16
                           : pixel + channel;
}

void PlacedTensor::Fill(const reference::Tensor& values) {
  const int stored = tensor_.blocked() ? tensor_.planes() * 16 : tensor_.channels;
  for (int c = 0; c < stored; ++c) {
    for (int y = 0; y < values.region.height; ++y) {
      for (int x = 0; x < values.region.width; ++x) {
        const bool real = c < values.channels;
        *const_cast<float*>(Address(c, x, y)) = real ? values.at(c, x, y) : 0.0f;
      }
    }
  }
}

int PlacedTensor::WrittenOutside(const Rect& rows) const {
  std::vector<bool> inside(storage_.size(), false);
  for (int plane = 0; plane < tensor_.planes(); ++plane) {
    for (int y = rows.y; y < rows.bottom(); ++y) {
      const size_t begin = tensor_.At(y, rows.x) + plane * tensor_.plane_stride - storage_.data();
      std::fill_n(inside.begin() + begin, rows.width * tensor_.pixel_stride, true);
    }
  }
  int written = 0;
  for (size_t i = 0; i < storage_.size(); ++i) {
    if (!inside[i] && std::memcmp(&original_[i], storage_.data() + i, sizeof(float)) != 0) {
      ++written;
    }
  }
  return written;
}

}  // namespace upscaled::test
