// upscale-bench train: the parts of a convolution's training apart, by engine/train's kernels and
// by their predecessors, and whole steps; on one thread and more.
// The predecessors ("kn2row") take nine products over a whole mini-batch, by our product and by
// oneDNN's, with dW in nine calls and in one pass.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/string_view.h"
#include "engine/model/multiply_adds.h"
#include "engine/model/shapes.h"
#include "engine/train/adam.h"
#include "engine/train/column_conv.h"
#include "engine/train/conv_kernel.h"
#include "engine/train/learner.h"
#include "engine/train/parameters.h"
#include "tests/bench/commands.h"
#include "tests/bench/kn2row.h"
#include "tests/bench/measure.h"
#include "tests/bench/onednn.h"
#include "tests/bench/options.h"
#include "tests/bench/report.h"

namespace upscaled::bench {
namespace {

using train::Grid;
using Tensor = train::Tensor<float>;

constexpr int kBatch = 8;
constexpr int kPatchPx = 48;
constexpr int kLayerPx = 60;  // of a layer's input, in the middle of a network

struct TrainOptions {
  std::vector<std::string> models = {"general-2x", "fast-2x", "random:upconv_7"};
  std::vector<std::filesystem::path> repositories;
  std::vector<int> threads = {1, 2};
  bool layers = true;
  double budget_s = 4;
  bool json = false;
};

template <typename Values>
void Fill(Values& values) {
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.01f * static_cast<float>(i % 61) - 0.3f;
}

// The parts of one 3x3 convolution, padded by a pixel, over a mini-batch divided among threads as
// in training.
class LayerBenchmark {
 public:
  LayerBenchmark(int in, int out, int threads, cpu::Isa isa) : shape_{in, out, 3, 1}, isa_(isa) {
    params_.resize(shape_.weights() + out);
    Fill(params_);
    for (int i = 0; i < threads; ++i) {
      const int images = kBatch * (i + 1) / threads - kBatch * i / threads;
      shares_.emplace_back(shape_, Grid{images, {kLayerPx, kLayerPx}}, isa);
    }
  }

  void AddKernels();
  void AddColumns();
  void AddKn2Row(const std::string& product, train::ProductFunction<float> multiply);
  void Measure(const MeasureOptions& options, std::vector<ReportRow>& report);

 private:
  // A thread's.
  struct Share {
    Share(const train::ConvShape& shape, const Grid& grid, cpu::Isa isa)
        : src(grid, shape.in),
          d_src(src),
          dst(grid, shape.out),
          d_sums(grid.size, shape.out, isa),
          d_params(shape.weights() + shape.out) {
      Fill(d_params);
      for (Tensor* tensor : {&src, &dst}) {
        for (int line = 0; line < grid.lines(); ++line) {
          const bool between = line % (kLayerPx + 1) == kLayerPx;
          for (int x = 0; x < kLayerPx && !between; ++x) {
            for (int c = 0; c < tensor->channels(); ++c) {
              tensor->At(c, line, x) = 0.01f * static_cast<float>((line + 7 * x + c) % 61) - 0.3f;
            }
          }
        }
      }
    }
    int images() const { return src.grid().images; }

    Tensor src, d_src, dst;
    train::SumsGradient<float> d_sums;
    std::vector<float> d_params;
  };

  // One for each thread.
  template <typename Made, typename Make>
  std::vector<std::shared_ptr<Made>> MakeForThreads(Make make) const {
    std::vector<std::shared_ptr<Made>> made;
    for (size_t i = 0; i < shares_.size(); ++i) made.push_back(make());
    return made;
  }
  // `products`: how many times the convolution's own operations.
  void Add(std::string name, int products, std::function<void(Share&, size_t thread)> work);

  const train::ConvShape shape_;
  const cpu::Isa isa_;
  std::vector<float> params_;
  std::vector<Share> shares_;
  std::vector<ReportRow> rows_;
  std::vector<Subject> subjects_;
};

void LayerBenchmark::Add(std::string name, int products,
                         std::function<void(Share&, size_t thread)> work) {
  const double operations = 2.0 * static_cast<double>(shape_.weights()) * kBatch *
                            static_cast<double>(Size{kLayerPx, kLayerPx}.Area());
  const auto threads = static_cast<int>(shares_.size());
  rows_.push_back({.name = std::move(name),
                   .shape = absl::StrFormat("%d-%d 3x3", shape_.in, shape_.out),
                   .threads = threads});
  const auto run = [this, work = std::move(work)] {
    std::vector<std::jthread> others;
    for (size_t i = 1; i < shares_.size(); ++i) {
      others.emplace_back([&, i] { work(shares_[i], i); });
    }
    work(shares_[0], 0);
  };
  subjects_.push_back({run, products * operations, threads});
}

void LayerBenchmark::AddKernels() {
  for (const train::ConvCandidate<float>& candidate : train::ConvKernels<float>()) {
    if (!candidate.supports(shape_)) continue;
    const auto kernels = MakeForThreads<train::ConvKernel<float>>([&] {
      auto kernel = candidate.make(shape_, isa_);
      kernel->SetWeights(params_.data());
      return kernel;
    });
    const std::string name(candidate.name);
    Add(name + " forward", 1, [this, kernels](Share& share, size_t thread) {
      kernels[thread]->SetWeights(params_.data());
      for (int i = 0; i < share.images(); ++i) {
        kernels[thread]->Forward(share.src, i, {}, share.dst);
      }
    });
    Add(name + " dIn", 1, [kernels](Share& share, size_t thread) {
      for (int i = 0; i < share.images(); ++i) {
        kernels[thread]->GetSourceGradient(share.d_sums, i, false, share.d_src);
      }
    });
    Add(name + " dW", 1, [kernels](Share& share, size_t thread) {
      for (int i = 0; i < share.images(); ++i) {
        kernels[thread]->AddWeightGradient(share.src, i, share.d_sums);
      }
      kernels[thread]->MoveWeightGradient(share.d_params.data());
    });
  }
  Add("dB and activation", 0, [this](Share& share, size_t) {
    for (int i = 0; i < share.images(); ++i) {
      share.d_sums.Set(share.dst, share.dst, i, 0.1f, share.d_params.data() + shape_.weights());
    }
  });
}

void LayerBenchmark::AddColumns() {
  const auto convs = MakeForThreads<train::ColumnConv<float>>([&] {
    return std::make_shared<train::ColumnConv<float>>(Layer{.op = Op::kConv,
                                                            .out_channels = shape_.out,
                                                            .in_channels = shape_.in,
                                                            .kernel_px = shape_.kernel_px,
                                                            .padding_px = shape_.padding_px},
                                                      isa_);
  });
  Add("im2col forward", 1, [this, convs](Share& share, size_t thread) {
    const Tensor* sources[] = {&share.src};
    convs[thread]->Begin(params_.data());
    convs[thread]->Forward(params_.data(), sources, share.dst);
  });
  const auto backward = [this, convs](Share& share, size_t thread, Tensor* d_src) {
    const Tensor* sources[] = {&share.src};
    const train::SourceGradient<float> gradients[] = {{.tensor = d_src}};
    convs[thread]->Backward(params_.data(), sources, share.dst, share.dst, gradients,
                            share.d_params.data());
    convs[thread]->End(share.d_params.data());
  };
  Add("im2col dW, dB", 1,
      [backward](Share& share, size_t thread) { backward(share, thread, nullptr); });
  Add("im2col dIn, dW, dB", 2,
      [backward](Share& share, size_t thread) { backward(share, thread, &share.d_src); });
}

void LayerBenchmark::AddKn2Row(const std::string& product, train::ProductFunction<float> multiply) {
  const auto made = MakeForThreads<Kn2Row>([&] {
    auto kn2row = std::make_shared<Kn2Row>(shape_.in, shape_.out, multiply);
    kn2row->SetParameters(params_);
    return kn2row;
  });
  const std::string name = absl::StrCat("kn2row ", product);
  Add(name + " forward", 1,
      [made](Share& share, size_t thread) { made[thread]->Forward(share.src, share.dst); });
  Add(name + " dIn", 1, [made](Share& share, size_t thread) {
    made[thread]->GetSourceGradient(share.dst, share.d_src);
  });
  Add(name + " dW, 9 calls", 1, [made](Share& share, size_t thread) {
    made[thread]->GetWeightGradient(share.src, share.dst);
  });
  Add(name + " dW, batched", 1, [made](Share& share, size_t thread) {
    made[thread]->GetWeightGradientBatched(share.src, share.dst);
  });
  Add(name + " dB", 0,
      [made](Share& share, size_t thread) { made[thread]->GetBiasGradient(share.dst); });
}

void LayerBenchmark::Measure(const MeasureOptions& options, std::vector<ReportRow>& report) {
  const std::vector<Measurement> measured = bench::Measure(subjects_, options);
  for (size_t i = 0; i < rows_.size(); ++i) {
    rows_[i].measurement = measured[i];
    report.push_back(std::move(rows_[i]));
  }
}

void MeasureLayers(const TrainOptions& options, const MeasureOptions& measure,
                   std::vector<ReportRow>& report) {
  for (const auto& [in, out] :
       {std::pair(48, 48), {48, 12}, {32, 32}, {64, 128}, {128, 128}, {128, 256}, {3, 48}}) {
    for (const int threads : options.threads) {
      LayerBenchmark benchmark(in, out, threads, measure.isa);
      benchmark.AddKernels();
      benchmark.AddColumns();
      if (in > train::kImageChannels) {
        benchmark.AddKn2Row("ours", train::ProductFor<float>(measure.isa));
        if (HasOnednn()) benchmark.AddKn2Row("oneDNN", OnednnProduct());
      }
      benchmark.Measure(measure, report);
    }
  }
}

// The operations of the convolutions in a step, forward and back.
double StepOperations(const Network& network) {
  const std::vector<Size> sizes = LayerSizes(network, {kPatchPx, kPatchPx});
  double operations = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const double forward =
        2 * kBatch * MultiplyAdds(network.layers[i], static_cast<double>(sizes[i].Area()));
    const bool has_source_gradient = i > 1;  // nobody asks for the image's
    operations += forward * (has_source_gradient ? 3 : 2);
  }
  return operations;
}

// All of a step but the reading of patches: loss, derivative, its norm, Adam.
ReportRow MeasureSteps(const std::string& name, const Network& network, int threads,
                       const MeasureOptions& options) {
  constexpr double kRate = 1e-9;  // the network stays what it is
  train::Learned learned(train::ReadParameters(network));
  std::vector<float> gradient;
  const auto learner = ValueOrExit(train::Learner::Create(network, kPatchPx, kBatch, threads));
  const auto fill = [](int, int, Tensor& input, Tensor&) { Fill(input.values()); };
  const Subject step{[&] {
                       learner->Gradient(learned.parameters, train::kPsnrLoss, fill, gradient);
                       train::ClipNorm(gradient, 0.5);
                       train::AdamStep(gradient, kRate, learned);
                     },
                     StepOperations(network), threads};
  ReportRow row{.name = name + " step",
                .shape = absl::StrFormat("%d patches of %d px", kBatch, kPatchPx),
                .threads = threads,
                .measurement = Measure({&step, 1}, options)[0]};
  row.note = absl::StrFormat("%.2f steps/s", 1 / row.measurement.seconds);
  return row;
}

void RunTrainCommand(const TrainOptions& options) {
  const MeasureOptions measure{.isa = ChosenIsa({}), .budget_s = options.budget_s};
  std::vector<ReportRow> report;
  if (options.layers) MeasureLayers(options, measure, report);
  for (const std::string& model : options.models) {
    const Network network = ModelOptions{model, options.repositories}.Load();
    for (const int threads : options.threads) {
      report.push_back(MeasureSteps(model, network, threads, measure));
    }
  }
  PrintReport(report, options.json);
}

}  // namespace

void AddTrainCommand(CLI::App& app) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command =
      app.add_subcommand("train", "Measure convolutions forward and backward, and training steps");
  command->add_option("--model", options->models, "Networks whose steps are measured; repeatable")
      ->capture_default_str();
  AddRepositoryOption(*command, options->repositories);
  command->add_option("--threads", options->threads, "Thread counts")
      ->delimiter(',')
      ->check(CLI::Range(1, kBatch))
      ->capture_default_str();
  command->add_flag("!--no-layers", options->layers, "Leave single convolutions out");
  command->add_option("--time", options->budget_s, "Seconds for each layer and network")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print a list of objects instead of a table");
  command->callback([options] { RunTrainCommand(*options); });
}

}  // namespace upscaled::bench
