#include "engine/train/cuda/cublas_conv.h"

#include <utility>

#include "engine/train/conv_weights.h"

namespace upscaled::train {
namespace {

template <typename Real>
class CublasConv final : public ConvKernel<Real> {
 public:
  CublasConv(const ConvShape& shape, const std::shared_ptr<Cublas>& device)
      : shape_(shape),
        in_(PaddedChannels(shape.in)),
        out_(PaddedChannels(shape.out)),
        packed_(size_t{1} * shape.taps() * in_ * out_),
        device_(device),
        weights_(device),
        turned_(device),
        d_weights_(device),
        source_(device),
        d_sums_(device),
        product_(device) {
    device_->Clear(d_weights_.Reserve(packed_.size()), packed_.size() * sizeof(Real));
  }

  void SetWeights(const Real* params) override {
    const Lines all{1, packed_.size(), packed_.size()};
    PackWeights(shape_, params, SourceStride(), out_, packed_.data());
    device_->Upload(packed_.data(), all, weights_.Reserve(all.values), all.stride);
    PackTurnedWeights(shape_, params, in_, out_, packed_.data());
    device_->Upload(packed_.data(), all, turned_.Reserve(all.values), all.stride);
  }
  void Forward(const Tensor<Real>& src, int image, const ConvEpilogue<Real>& epilogue,
               Tensor<Real>& dst) override {
    Convolve(SourceOf(src, image), weights_.data(), image, epilogue, dst);
  }
  void GetSourceGradient(const SumsGradient<Real>& d_sums, int image, bool add,
                         Tensor<Real>& d_src) override {
    const int border = shape_.kernel_px - 1 - shape_.padding_px;
    Convolve({d_sums.At(-border, -border), d_sums.line_stride() / out_, size_t(out_)},
             turned_.data(), image, {.add = add}, d_src);
  }
  void AddWeightGradient(const Tensor<Real>& src, int image,
                         const SumsGradient<Real>& d_sums) override;
  void MoveWeightGradient(Real* d_params) override;

 private:
  // An image from the input of the first tap of its first pixel.
  struct Source {
    const Real* first;
    size_t pitch, channels;  // pixels from a line to the next, values from a pixel to the next
  };
  Source SourceOf(const Tensor<Real>& src, int image) const {
    const int padding = shape_.padding_px;
    return {src.line(src.grid().Line(image, 0) - padding) - padding * src.stride(),
            src.grid().pitch(), size_t(src.stride())};
  }
  int SourceStride() const { return Tensor<Real>({}, shape_.in).stride(); }

  // Pixels from the first to the last of a result of this size, with lines a pitch apart.
  static size_t Pixels(Size size, size_t pitch) { return (size.height - 1) * pitch + size.width; }
  // The source's values for the taps of these pixels.
  const Real* UploadSource(const Source& src, size_t pixels);
  void Convolve(const Source& src, const Real* weights, int image,
                const ConvEpilogue<Real>& epilogue, Tensor<Real>& dst);

  const ConvShape shape_;
  const int in_, out_;  // padded
  LineVector<Real> packed_, sums_;
  const std::shared_ptr<Cublas> device_;
  DeviceArray<Real> weights_, turned_, d_weights_;  // as conv_weights.h packs them
  DeviceArray<Real> source_, d_sums_, product_;     // of an image
};

template <typename Real>
const Real* CublasConv<Real>::UploadSource(const Source& src, size_t pixels) {
  const size_t values = (pixels + (shape_.kernel_px - 1) * (src.pitch + 1)) * src.channels;
  Real* to = source_.Reserve(values);
  device_->Upload(src.first, {1, values, values}, to, values);
  return to;
}

template <typename Real>
void CublasConv<Real>::Convolve(const Source& src, const Real* weights, int image,
                                const ConvEpilogue<Real>& epilogue, Tensor<Real>& dst) {
  const Size size = dst.grid().size;
  const size_t channels = PaddedChannels(dst.channels());
  const size_t pixels = Pixels(size, src.pitch);
  const Real* source = UploadSource(src, pixels);
  Real* product = product_.Reserve(pixels * channels);
  if (!device_->status().ok()) return;
  for (int tap = 0; tap < shape_.taps(); ++tap) {
    const size_t shift = tap / shape_.kernel_px * src.pitch + tap % shape_.kernel_px;
    device_->Multiply<Real>({.rows = static_cast<int>(pixels),
                             .columns = static_cast<int>(channels),
                             .depth = static_cast<int>(src.channels),
                             .a = source + shift * src.channels,
                             .a_row = src.channels,
                             .a_depth = 1,
                             .b = weights + tap * src.channels * channels,
                             .b_stride = channels,
                             .c = product,
                             .c_stride = channels,
                             .add = tap > 0});
  }
  const size_t line_values = size.width * channels;
  sums_.resize(size.height * line_values);
  device_->Download(product, {size_t(size.height), line_values, src.pitch * channels}, sums_.data(),
                    line_values);
  for (int y = 0; y < size.height; ++y) {
    FinishLine(sums_.data() + y * line_values, static_cast<int>(channels), epilogue,
               dst.grid().Line(image, y), dst);
  }
}

template <typename Real>
void CublasConv<Real>::AddWeightGradient(const Tensor<Real>& src, int image,
                                         const SumsGradient<Real>& d_sums) {
  const Source from = SourceOf(src, image);
  const Size size = d_sums.size();
  const size_t pixels = Pixels(size, from.pitch);
  const Real* source = UploadSource(from, pixels);
  // As far apart as the source's lines, zeros between: values there add nothing.
  Real* sums = d_sums_.Reserve(pixels * out_);
  if (!device_->status().ok()) return;
  device_->Clear(sums, pixels * out_ * sizeof(Real));
  device_->Upload(d_sums.At(0, 0),
                  {size_t(size.height), size_t(size.width) * out_, d_sums.line_stride()}, sums,
                  from.pitch * out_);
  const size_t filters = from.channels * out_;
  for (int ky = 0; ky < shape_.kernel_px; ++ky) {
    device_->Multiply<Real>({.rows = static_cast<int>(from.channels),
                             .columns = out_,
                             .depth = static_cast<int>(pixels),
                             .a = source + ky * from.pitch * from.channels,
                             .a_row = 1,
                             .a_depth = from.channels,
                             .b = sums,
                             .b_stride = size_t(out_),
                             .c = d_weights_.data() + ky * shape_.kernel_px * filters,
                             .c_stride = size_t(out_),
                             .add = true},
                            {shape_.kernel_px, from.channels, filters});
  }
}

template <typename Real>
void CublasConv<Real>::MoveWeightGradient(Real* d_params) {
  const Lines all{1, packed_.size(), packed_.size()};
  device_->Download(d_weights_.data(), all, packed_.data(), all.stride);
  AddPacked(shape_, packed_.data(), SourceStride(), out_, d_params);
  device_->Clear(d_weights_.data(), packed_.size() * sizeof(Real));
}

template <typename Real>
ConvKernelMaker<Real> MakerOn(const std::shared_ptr<Cublas>& device) {
  return [device](const ConvShape& shape) {
    return std::make_unique<CublasConv<Real>>(shape, device);
  };
}

}  // namespace

ConvDevice CublasConvs(std::shared_ptr<Cublas> device) {
  return {.name = "cuda",
          .of_floats = MakerOn<float>(device),
          .of_doubles = MakerOn<double>(device),
          .status = [device = std::move(device)] { return device->status(); }};
}

}  // namespace upscaled::train
