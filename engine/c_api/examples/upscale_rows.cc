// Upscales a PPM row by row, in memory that grows with its width only: ./upscale_rows < in.ppm >
// out.ppm
#include <upscaled.h>

#include <iostream>
#include <memory>
#include <string>

struct CloseModel {
  void operator()(upscaled_model* model) const { upscaled_close_model(model); }
};

int main() {
  std::string kind;
  upscaled_image source{0, 0, 3, 8};
  int most = 0;
  std::cin >> kind >> source.width_px >> source.height_px >> most;
  std::cin.get();

  upscaled_model* opened = nullptr;
  size_t row_bytes[2] = {size_t(source.width_px) * 3, 0};  // of source and result
  upscaled_request request = UPSCALED_REQUEST_INIT;
  request.user = row_bytes;
  upscaled_plan_result plan{};
  plan.struct_bytes = sizeof plan;
  bool ok = upscaled_open_model("fast-2x", nullptr, &opened) == UPSCALED_OK;
  const std::unique_ptr<upscaled_model, CloseModel> model(opened);
  ok = ok && upscaled_plan(model.get(), &source, &request, &plan) == UPSCALED_OK;
  row_bytes[1] = size_t(plan.result.width_px) * 3;
  const auto read = [](void* user, void* row) -> int {
    return !std::cin.read(static_cast<char*>(row),
                          static_cast<std::streamsize>(static_cast<size_t*>(user)[0]));
  };
  const auto write = [](void* user, const void* row) -> int {
    return !std::cout.write(static_cast<const char*>(row),
                            static_cast<std::streamsize>(static_cast<size_t*>(user)[1]));
  };
  if (ok) std::cout << "P6 " << plan.result.width_px << ' ' << plan.result.height_px << " 255\n";
  ok = ok && upscaled_run_rows(model.get(), &source, &request, read, write) == UPSCALED_OK;
  if (!ok) std::cerr << upscaled_error() << '\n';
  return ok ? 0 : 1;
}
