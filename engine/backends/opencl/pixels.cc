#include "engine/backends/opencl/pixels.h"

#include <cstring>
#include <string>
#include <utility>

#include "engine/backends/opencl/sources.h"
#include "engine/image/copy_rgb.h"

namespace upscaled::opencl {
namespace {

struct Functions {
  const char* load;
  const char* store;
};

Functions FunctionsOf(SampleType type) {
  switch (type) {
    case SampleType::kU8:
      return {"load_u8", "store_u8"};
    case SampleType::kU16:
      return {"load_u16", "store_u16"};
    case SampleType::kF32:
      return {"load_f32", "store_f32"};
  }
  return {};
}

absl::StatusOr<cl::Program> PixelsProgram(Context& context, Precision precision) {
  return context.programs.Get(kPixelsSource, StorageOption(precision));
}

WorkSize ItemsOf(const Rect& region) {
  return {static_cast<size_t>(region.width), static_cast<size_t>(region.height), 1};
}

// A buffer in the host's address space while this lives.
class Mapping {
 public:
  static absl::StatusOr<Mapping> Create(const cl::CommandQueue& queue, const cl::Buffer& buffer,
                                        cl_map_flags flags, size_t bytes) {
    cl_int error = CL_SUCCESS;
    void* const data =
        queue.enqueueMapBuffer(buffer, CL_TRUE, flags, 0, bytes, nullptr, nullptr, &error);
    RETURN_IF_ERROR(ToStatus(error, "clEnqueueMapBuffer"));
    return Mapping(queue, buffer, data);
  }
  Mapping(Mapping&& other) noexcept
      : queue_(other.queue_), buffer_(other.buffer_), data_(std::exchange(other.data_, nullptr)) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (data_ != nullptr) queue_.enqueueUnmapMemObject(buffer_, data_);
  }
  uint8_t* data() const { return static_cast<uint8_t*>(data_); }

 private:
  Mapping(const cl::CommandQueue& queue, const cl::Buffer& buffer, void* data)
      : queue_(queue), buffer_(buffer), data_(data) {}

  cl::CommandQueue queue_;
  cl::Buffer buffer_;
  void* data_;
};

}  // namespace

absl::StatusOr<cl::Buffer> TransferBuffer::Reserve(const Context& context, size_t bytes) {
  if (bytes > bytes_) {
    cl_int error = CL_SUCCESS;
    cl::Buffer buffer(context.handle, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, nullptr,
                      &error);
    RETURN_IF_ERROR(ToStatus(error, "clCreateBuffer for pixels"));
    buffer_ = std::move(buffer);
    bytes_ = bytes;
  }
  return buffer_;
}

absl::Status LoadPixels(Context& context, Launcher& launcher, TransferBuffer& transfer,
                        const ImageView& src, const Rect& src_rect, Size image, int pad_px,
                        Precision precision, const Tensor& dst) {
  const size_t row_bytes = src.spec.row_bytes(), bytes = row_bytes * src.spec.height_px;
  ASSIGN_OR_RETURN(const cl::Buffer buffer, transfer.Reserve(context, bytes));
  {
    ASSIGN_OR_RETURN(const Mapping mapping, Mapping::Create(launcher.queue(), buffer,
                                                            CL_MAP_WRITE_INVALIDATE_REGION, bytes));
    for (int y = 0; y < src.spec.height_px; ++y) {
      std::memcpy(mapping.data() + y * row_bytes, src.row(y), row_bytes);
    }
  }
  ASSIGN_OR_RETURN(cl::Program program, PixelsProgram(context, precision));
  const KernelFunction load{std::move(program), FunctionsOf(src.spec.type).load};
  return launcher.Launch(load, ItemsOf(dst.region), kItemGroup, buffer, src_rect,
                         cl_int{src.spec.channels}, image, cl_int{pad_px}, dst, dst.region);
}

absl::Status StorePixels(Context& context, Launcher& launcher, TransferBuffer& transfer,
                         const Tensor& src, Precision precision, const Rect& result,
                         const MutableImageView& dst) {
  const size_t row_bytes =
      size_t{1} * dst.spec.width_px * kRgbChannels * SampleBytes(dst.spec.type);
  const size_t bytes = row_bytes * dst.spec.height_px;
  ASSIGN_OR_RETURN(const cl::Buffer buffer, transfer.Reserve(context, bytes));
  ASSIGN_OR_RETURN(cl::Program program, PixelsProgram(context, precision));
  const KernelFunction store{std::move(program), FunctionsOf(dst.spec.type).store};
  RETURN_IF_ERROR(launcher.Launch(store, ItemsOf(result), kItemGroup, src, result, buffer));
  ASSIGN_OR_RETURN(const Mapping mapping,
                   Mapping::Create(launcher.queue(), buffer, CL_MAP_READ, bytes));
  for (int y = 0; y < dst.spec.height_px; ++y) {
    CopyRgb(mapping.data() + y * row_bytes, dst.spec.width_px, dst.spec, dst.row(y));
  }
  return absl::OkStatus();
}

}  // namespace upscaled::opencl
