#include "engine/train/direct_conv.h"

#include <algorithm>

#include "engine/train/conv_weights.h"
#include "engine/train/kernels/product.h"

namespace upscaled::train {
namespace {

template <typename Real>
class DirectConv final : public ConvKernel<Real> {
 public:
  DirectConv(const ConvShape& shape, cpu::Isa isa)
      : shape_(shape),
        multiply_(ProductFor<Real>(isa)),
        in_(PaddedChannels(shape.in)),
        out_(PaddedChannels(shape.out)),
        weights_(size_t{1} * shape.taps() * in_ * out_),
        turned_(weights_.size()),
        d_weights_(weights_.size()) {}

  void SetWeights(const Real* params) override {
    PackWeights(shape_, params, SourceStride(), out_, weights_.data());
    PackTurnedWeights(shape_, params, in_, out_, turned_.data());
  }
  void Forward(const Tensor<Real>& src, int image, const ConvEpilogue<Real>& epilogue,
               Tensor<Real>& dst) override {
    const Real* first =
        src.line(src.grid().Line(image, 0) - shape_.padding_px) - shape_.padding_px * src.stride();
    Convolve({first, src.line_stride(), src.stride()}, weights_.data(), image, epilogue, dst);
  }
  void GetSourceGradient(const SumsGradient<Real>& d_sums, int image, bool add,
                         Tensor<Real>& d_src) override {
    const int border = shape_.kernel_px - 1 - shape_.padding_px;
    Convolve({d_sums.At(-border, -border), d_sums.line_stride(), out_}, turned_.data(), image,
             {.add = add}, d_src);
  }
  void AddWeightGradient(const Tensor<Real>& src, int image,
                         const SumsGradient<Real>& d_sums) override;
  void MoveWeightGradient(Real* d_params) override {
    AddPacked(shape_, d_weights_.data(), SourceStride(), out_, d_params);
    std::fill(d_weights_.begin(), d_weights_.end(), Real{0});
  }

 private:
  // The values in line y and column x are the first tap's input of pixel (x, y).
  struct Source {
    const Real* values;
    size_t line_stride;
    int stride;
  };
  int SourceStride() const { return Tensor<Real>({}, shape_.in).stride(); }
  void Convolve(const Source& src, const Real* weights, int image,
                const ConvEpilogue<Real>& epilogue, Tensor<Real>& dst);

  const ConvShape shape_;
  const ProductFunction<Real> multiply_;
  const int in_, out_;  // padded
  LineVector<Real> weights_, turned_, d_weights_, sums_;
};

template <typename Real>
void DirectConv<Real>::Convolve(const Source& src, const Real* weights, int image,
                                const ConvEpilogue<Real>& epilogue, Tensor<Real>& dst) {
  const int width = dst.grid().size.width, channels = PaddedChannels(dst.channels());
  const int depth = shape_.kernel_px * src.stride;
  sums_.resize(size_t{1} * width * channels);
  for (int y = 0; y < dst.grid().size.height; ++y) {
    for (int ky = 0; ky < shape_.kernel_px; ++ky) {
      multiply_({.rows = width,
                 .columns = channels,
                 .depth = depth,
                 .a = src.values + (y + ky) * src.line_stride,
                 .a_row = size_t(src.stride),
                 .a_depth = 1,
                 .b = weights + ky * depth * channels,
                 .b_stride = size_t(channels),
                 .c = sums_.data(),
                 .c_stride = size_t(channels),
                 .add = ky > 0});
    }
    FinishLine(sums_.data(), channels, epilogue, dst.grid().Line(image, y), dst);
  }
}

template <typename Real>
void DirectConv<Real>::AddWeightGradient(const Tensor<Real>& src, int image,
                                         const SumsGradient<Real>& d_sums) {
  const int depth = shape_.kernel_px * src.stride();
  for (int y = 0; y < d_sums.size().height; ++y) {
    for (int ky = 0; ky < shape_.kernel_px; ++ky) {
      multiply_({.rows = depth,
                 .columns = out_,
                 .depth = d_sums.size().width,
                 .a = src.line(src.grid().Line(image, y + ky) - shape_.padding_px) -
                      shape_.padding_px * src.stride(),
                 .a_row = 1,
                 .a_depth = size_t(src.stride()),
                 .b = d_sums.At(y, 0),
                 .b_stride = d_sums.pixel_stride(),
                 .c = d_weights_.data() + ky * depth * out_,
                 .c_stride = size_t(out_),
                 .add = true});
    }
  }
}

}  // namespace

template <typename Real>
std::unique_ptr<ConvKernel<Real>> MakeDirectConv(const ConvShape& shape, cpu::Isa isa) {
  return std::make_unique<DirectConv<Real>>(shape, isa);
}

template std::unique_ptr<ConvKernel<float>> MakeDirectConv(const ConvShape&, cpu::Isa);
template std::unique_ptr<ConvKernel<double>> MakeDirectConv(const ConvShape&, cpu::Isa);

}  // namespace upscaled::train
