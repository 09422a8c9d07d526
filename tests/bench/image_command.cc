// upscale-bench image: the image kernels step by step, as a share of the device's copying bandwidth
// in the same run.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/string_view.h"
#include "tests/bench/commands.h"
#include "tests/bench/image_devices.h"
#include "tests/bench/machine.h"
#include "tests/bench/measure.h"
#include "tests/bench/options.h"

namespace upscaled::bench {
namespace {

struct ImageOptions {
  std::string device = "cpu";
  std::string size = "3840x2160";
  BilateralOptions bilateral = {2, 20};
  int threads = 1;
  double budget_s = 0.5;
  bool json = false;
};

struct NamedOp {
  ImageOp op;
  const char* name;
  int divisor;  // divides the sides: kernels that compute much for each byte take fewer bytes
};
constexpr NamedOp kOps[] = {
    {ImageOp::kBilateral, "bilateral", 8},   {ImageOp::kTranspose, "transpose", 1},
    {ImageOp::kToPlanes, "to planes", 1},    {ImageOp::kFromPlanes, "from planes", 1},
    {ImageOp::kRowStats, "row stats", 1},    {ImageOp::kColumnStats, "column stats", 1},
    {ImageOp::kSquaredError, "PSNR sum", 1}, {ImageOp::kSsim, "SSIM sum", 4},
};

struct Row {
  std::string op;
  std::string_view step;
  Size size;
  double seconds = 0;    // median
  double gb_per_s = 0;   // source and result, at the median
  double copy_gb_per_s;  // median
  double ratio = 0;      // median of the rounds' ratios
};

// One step with its images.
class Candidate {
 public:
  Candidate(ImageKernels& kernels, size_t step, const ImageWork& work)
      : kernels_(kernels),
        step_(step),
        work_(work),
        src_(SourceBytes(work)),
        dst_(ResultBytes(work)) {
    // Bytes below 64 are small positive floats, four at a time.
    for (size_t i = 0; i < src_.size(); ++i)
      src_[i] = static_cast<uint8_t>((i * 37 + i / 251) % 64);
  }

  // Bytes of source and result a nanosecond.
  double Run() {
    seconds_.push_back(ValueOrExit(kernels_.Run(step_, work_, src_, dst_)));
    return Rate(seconds_.back());
  }
  double Rate(double seconds) const {
    return static_cast<double>(src_.size() + dst_.size()) * 1e-9 / seconds;
  }
  double seconds() const { return Median(seconds_); }
  std::string_view name() const { return kernels_.steps()[step_].name; }

 private:
  ImageKernels& kernels_;
  const size_t step_;
  const ImageWork work_;
  std::vector<uint8_t> src_, dst_;
  std::vector<double> seconds_;
};

void AddCandidates(const ImageKernelsList& list, const ImageWork& work,
                   std::vector<Candidate>& candidates) {
  for (const auto& kernels : list) {
    for (size_t step = 0; step < kernels->steps().size(); ++step) {
      if (kernels->steps()[step].op == work.op) candidates.emplace_back(*kernels, step, work);
    }
  }
}

// The operation's steps and the copy in turns, until the budget is spent.
std::vector<Row> MeasureSteps(const ImageKernelsList& list, const NamedOp& op, Size size,
                              const ImageOptions& options) {
  constexpr size_t kMinRounds = 3;
  const Size part{std::max(size.width / op.divisor, 16), std::max(size.height / op.divisor, 16)};
  std::vector<Candidate> candidates, copies;
  AddCandidates(list, {op.op, part, options.bilateral}, candidates);
  AddCandidates(list, {ImageOp::kCopy, size}, copies);
  Candidate& copy = copies.back();
  copy.Run();
  for (Candidate& candidate : candidates) candidate.Run();  // warms up

  std::vector<double> copy_rates;
  std::vector<std::vector<double>> ratios(candidates.size());
  const absl::Time end = absl::Now() + absl::Seconds(options.budget_s);
  while (copy_rates.size() < kMinRounds || absl::Now() < end) {
    const double copy_rate = copy.Run();
    copy_rates.push_back(copy_rate);
    for (size_t i = 0; i < candidates.size(); ++i) {
      ratios[i].push_back(candidates[i].Run() / copy_rate);
    }
  }
  std::vector<Row> rows;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const double seconds = candidates[i].seconds();
    rows.push_back({op.name, candidates[i].name(), part, seconds, candidates[i].Rate(seconds),
                    Median(copy_rates), Median(ratios[i])});
  }
  return rows;
}

void PrintTable(const std::vector<Row>& rows) {
  PrintMachine();
  std::printf("%-14s %-26s %-10s %10s %9s %9s %7s\n", "kernel", "step", "size", "ms", "GB/s",
              "copy", "share");
  for (const Row& row : rows) {
    std::printf("%-14s %-26s %-10s %10.3f %9.2f %9.2f %7.3f\n", row.op.c_str(),
                std::string(row.step).c_str(),
                absl::StrFormat("%dx%d", row.size.width, row.size.height).c_str(),
                row.seconds * 1e3, row.gb_per_s, row.copy_gb_per_s, row.ratio);
  }
}

void PrintJson(const std::vector<Row>& rows, const ImageOptions& options) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    list.push_back({{"name", row.op},
                    {"step", row.step},
                    {"shape", absl::StrFormat("%dx%d", row.size.width, row.size.height)},
                    {"device", options.device},
                    {"threads", options.threads},
                    {"seconds", row.seconds},
                    {"gb_per_s", row.gb_per_s},
                    {"copy_gb_per_s", row.copy_gb_per_s},
                    {"ratio", row.ratio}});
  }
  std::printf("%s\n", list.dump(2).c_str());
}

void RunImageCommand(const ImageOptions& options) {
  const Size size = ValueOrExit(ParseSize(options.size));
  const ImageKernelsList list = ValueOrExit(CreateImageKernels(options.device, options.threads));
  std::vector<Row> rows;
  for (const NamedOp& op : kOps) {
    const std::vector<Row> of_op = MeasureSteps(list, op, size, options);
    rows.insert(rows.end(), of_op.begin(), of_op.end());
  }
  options.json ? PrintJson(rows, options) : PrintTable(rows);
}

}  // namespace

void AddImageCommand(CLI::App& app) {
  auto options = std::make_shared<ImageOptions>();
  CLI::App* command = app.add_subcommand(
      "image", "The image kernels, step by step, as a share of the bandwidth of a copy");
  command->add_option("--device", options->device, "cpu, opencl, opencl:P.D or cuda:N")
      ->capture_default_str();
  command
      ->add_option("--size", options->size,
                   "Matrix; SSIM takes a quarter of its sides, the filter an eighth")
      ->capture_default_str();
  command->add_option("--sigma-space", options->bilateral.sigma_space, "Of the bilateral filter")
      ->check(CLI::Range(BilateralOptions::kMinSigma, BilateralOptions::kMaxSigmaSpace))
      ->capture_default_str();
  command->add_option("--threads", options->threads, "Of the cpu; 0 = all available")
      ->capture_default_str();
  command->add_option("--time", options->budget_s, "Seconds to measure each kernel for")
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print a list of objects instead of a table");
  command->callback([options] { RunImageCommand(*options); });
}

}  // namespace upscaled::bench
