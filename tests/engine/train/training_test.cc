// Whole trainings: the model that comes out, checkpoints, and what is refused.
#include "engine/train/training.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/backends/reference/reference_backend.h"
#include "engine/base/files.h"
#include "engine/model/loader.h"
#include "engine/model/repository.h"
#include "engine/train/model_folder.h"
#include "engine/train/parameters.h"
#include "tests/support/run_image.h"
#include "tests/support/test_image.h"

namespace upscaled::train {
namespace {

namespace fs = std::filesystem;

class TrainingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "training-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    fs::create_directory(folder_ / "images");
    fs::create_directories(folder_ / "models" / "mine");
    std::mt19937 random(7);
    for (int i = 0; i < 6; ++i) {
      const Image image = test::ArtImage({64, 56, 3, SampleType::kU8}, random);
      std::ofstream(folder_ / "images" / absl::StrCat(i, ".png"), std::ios::binary)
          << *test::Encode(image.view(), {.format = ImageFormat::kPng});
    }
    start_ = LoadNetworkFile(UPSCALED_BUNDLED_MODELS "/fast-2x/model.param").value();
  }
  void TearDown() override { fs::remove_all(folder_); }

  TrainingOptions Options(const std::string& checkpoint) const {
    return {.images = folder_ / "images",
            .checkpoint = folder_ / checkpoint,
            .start = "fast-2x",
            .steps = 12,
            .seed = 3,
            .batch = 2,
            .patch_px = 12,
            .threads = 2,
            .rate = 1e-3};
  }

  std::unique_ptr<Training> Create(const TrainingOptions& options) const {
    auto training = Training::Create(start_, options);
    EXPECT_TRUE(training.ok()) << training.status();
    return *std::move(training);
  }

  void ExpectRefused(const TrainingOptions& options, absl::StatusCode code,
                     const std::string& message) const {
    const absl::Status status = Training::Create(start_, options).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_NE(status.message().find(message), status.message().npos) << status;
  }

  std::string Bytes(const std::string& file) const {
    return ReadFile(folder_ / file, size_t{1} << 30).value();
  }

  const std::atomic<bool> go_on_ = false;
  fs::path folder_;
  Network start_;
};

TEST_F(TrainingTest, GetsBetterOnItsOwnImages) {
  TrainingOptions options = Options("checkpoint");
  options.steps = 60;
  const auto training = Create(options);
  int reports = 0;
  const absl::Status status = training->Run(go_on_, [&](const Progress& progress) {
    ++reports;
    EXPECT_EQ(progress.total_steps, 60);
    EXPECT_GT(progress.steps_per_second, 0);
    EXPECT_GE(progress.best_psnr_db, progress.psnr_db);
  });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(reports, 30);
  EXPECT_GT(training->state().best_psnr_db, training->state().start_psnr_db);
  EXPECT_NE(ReadParameters(training->BestNetwork()), ReadParameters(start_));
}

// Images that JPEG spoils come out worse, by Lanczos and by the start.
TEST_F(TrainingTest, JudgesByTheRecipe) {
  const auto plain = Create(Options("plain"));
  TrainingOptions options = Options("spoilt");
  options.recipe = {.reductions = {Reduction::kLanczosLinear, Reduction::kBoxLinear},
                    .jpeg = {.share = 1, .min = 20, .max = 30}};
  const auto spoilt = Create(options);
  EXPECT_LT(spoilt->lanczos_psnr_db(), plain->lanczos_psnr_db() - 0.2);
  EXPECT_LT(spoilt->state().start_psnr_db, plain->state().start_psnr_db - 0.2);
  ASSERT_TRUE(spoilt->Run(go_on_, [](const Progress&) {}).ok());
}

// Small images of the sender's own are learnt from, and no reduction of the large ones.
TEST_F(TrainingTest, LearnsFromPairs) {
  TrainingOptions options = Options("checkpoint");
  options.small_images = folder_ / "small";
  options.recipe.reductions.clear();
  fs::create_directory(options.small_images);
  std::mt19937 random(8);
  for (int i = 0; i < 6; ++i) {
    const Image image = test::ArtImage({32, 28, 3, SampleType::kU8}, random);
    std::ofstream(options.small_images / absl::StrCat(i, ".png"), std::ios::binary)
        << *test::Encode(image.view(), {.format = ImageFormat::kPng});
  }
  const auto training = Create(options);
  EXPECT_LT(training->lanczos_psnr_db(), Create(Options("reduced"))->lanczos_psnr_db() - 3)
      << "small images of something else";
  ASSERT_TRUE(training->Run(go_on_, [](const Progress&) {}).ok());
  options.small_images.clear();
  options.recipe = {};
  options.resume = true;
  ExpectRefused(options, absl::StatusCode::kFailedPrecondition, "pixels in pairs");
}

// Stopped after any step and resumed, it ends with the same bytes.
TEST_F(TrainingTest, ResumesToTheBit) {
  ASSERT_TRUE(Create(Options("whole"))->Run(go_on_, [](const Progress&) {}).ok());
  std::atomic<bool> stop = false;
  ASSERT_TRUE(Create(Options("parts"))
                  ->Run(stop, [&](const Progress& progress) { stop = progress.step == 5; })
                  .ok());
  EXPECT_NE(Bytes("parts"), Bytes("whole"));
  TrainingOptions options = Options("parts");
  options.resume = true;
  const auto resumed = Create(options);
  EXPECT_EQ(resumed->state().learned.steps, 5);
  ASSERT_TRUE(resumed->Run(go_on_, [](const Progress&) {}).ok());
  EXPECT_EQ(Bytes("parts"), Bytes("whole"));
}

TEST_F(TrainingTest, RefusesAResumeOfSomethingElse) {
  Create(Options("checkpoint"));
  ExpectRefused(Options("checkpoint"), absl::StatusCode::kFailedPrecondition, "is there");
  TrainingOptions options = Options("checkpoint");
  options.resume = true;
  options.seed = 4;
  ExpectRefused(options, absl::StatusCode::kFailedPrecondition, "seed 3, batch 2");
  options.seed = 3;
  options.device.name = "cuda";
  ExpectRefused(options, absl::StatusCode::kFailedPrecondition, "threads 2 on cuda, rate");
  options.recipe.jpeg = {.share = 0.5, .min = 60, .max = 90};
  ExpectRefused(options, absl::StatusCode::kFailedPrecondition, R"("jpeg":{"share":0.5)");
  options.checkpoint = folder_ / "none";
  ExpectRefused(options, absl::StatusCode::kNotFound, "none");
  std::ofstream(folder_ / "short") << Bytes("checkpoint").substr(0, 1000);
  options.checkpoint = folder_ / "short";
  ExpectRefused(options, absl::StatusCode::kInvalidArgument, "is no checkpoint of a network of");
  std::string nan = Bytes("checkpoint");
  nan.replace(nan.size() - 4, 4, "\xff\xff\xff\xff");
  std::ofstream(folder_ / "nan") << nan;
  options.checkpoint = folder_ / "nan";
  ExpectRefused(options, absl::StatusCode::kInvalidArgument, "is damaged");
}

// Learned as collapsible blocks, by another loss and schedule; folded it is a network as before.
TEST_F(TrainingTest, LearnsCollapsibleBlocks) {
  TrainingOptions options = Options("checkpoint");
  options.steps = 40;
  options.expansion = 2;
  options.schedule = Schedule::kOneCycle;
  options.loss = {.charbonnier = 1};
  const auto training = Create(options);
  EXPECT_EQ(ReadParameters(training->BestNetwork()), ReadParameters(start_));
  ASSERT_TRUE(training->Run(go_on_, [](const Progress&) {}).ok());
  EXPECT_GT(training->state().best_psnr_db, training->state().start_psnr_db);
  EXPECT_EQ(ReadParameters(training->BestNetwork()).size(), ReadParameters(start_).size());
  EXPECT_GT(training->state().best.size(), 3 * ReadParameters(start_).size());
  options.expansion = 0;
  options.resume = true;
  ExpectRefused(options, absl::StatusCode::kInvalidArgument, "is no checkpoint of a network of");
}

// Root may write everywhere, so the test becomes another user.
TEST_F(TrainingTest, RefusesAFolderThatItCannotWriteTo) {
  ExpectRefused(Options("none/checkpoint"), absl::StatusCode::kUnavailable, "No such file");
  fs::create_directory(folder_ / "locked");
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  ASSERT_EQ(chmod((folder_ / "locked").c_str(), 0555), 0);
  constexpr uid_t kNobody = 65534;
  const bool is_root = geteuid() == 0;
  if (is_root) {
    ASSERT_EQ(seteuid(kNobody), 0);
  }
  ExpectRefused(Options("locked/checkpoint"), absl::StatusCode::kUnavailable, "Permission denied");
  if (is_root) {
    ASSERT_EQ(seteuid(0), 0);
  }
}

// A limit on files' sizes stands for a full disk: both fail while the file is written.
TEST_F(TrainingTest, KeepsTheCheckpointWhereThereIsNoSpace) {
  const auto training = Create(Options("checkpoint"));
  const std::string before = Bytes("checkpoint");
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  rlimit small = old;
  small.rlim_cur = 1000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = training->Run(go_on_, [](const Progress&) {});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  signal(SIGXFSZ, old_handler);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_NE(status.message().find(": File too large"), status.message().npos) << status;
  EXPECT_EQ(Bytes("checkpoint"), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 3) << "images, models, checkpoint";
}

TEST_F(TrainingTest, EndsWhereAGradientIsNotFinite) {
  TrainingOptions options = Options("checkpoint");
  options.rate = 1e30;
  const auto training = Create(options);
  const absl::Status status = training->Run(go_on_, [](const Progress&) {});
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  for (const float parameter : ReadParameters(training->BestNetwork())) {
    ASSERT_TRUE(std::isfinite(parameter));
  }
}

TEST_F(TrainingTest, EndsWhereTheDeviceFails) {
  TrainingOptions options = Options("checkpoint");
  const absl::Status lost = absl::UnavailableError("the device is lost");
  bool works = true;
  options.device.status = [&] { return works ? absl::OkStatus() : lost; };
  const auto training = Create(options);
  EXPECT_EQ(training->Run(go_on_, [&](const Progress& progress) { works = progress.step < 4; }),
            lost);
  EXPECT_EQ(training->state().learned.steps, 4);
}

// The model that was learned is served: to the bit what the trained network computes.
TEST_F(TrainingTest, TheModelIsServed) {
  TrainingOptions options = Options("checkpoint");
  options.steps = 60;  // after which it is no longer the start
  const auto training = Create(options);
  ASSERT_TRUE(training->Run(go_on_, [](const Progress&) {}).ok());
  const ModelRepository bundled = ModelRepository::Open({UPSCALED_BUNDLED_MODELS}).value();
  const Network best = training->BestNetwork();
  ASSERT_TRUE(WriteModelFolder(folder_ / "models/mine", best,
                               {.start = *bundled.Find("fast-2x"), .images = "images"})
                  .ok());
  const auto repository = ModelRepository::Open({folder_ / "models"});
  ASSERT_TRUE(repository.ok()) << repository.status();
  const ModelCard* card = *repository->Find("mine");
  const auto served = LoadNetwork(*card, card->variants.front());
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_EQ(card->family, "espcn");
  EXPECT_EQ(card->NoiseLevels(), std::vector<int>{kNoDenoise});

  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({20, 17, 3, SampleType::kF32}, random);
  const auto backend = CreateReferenceBackend({}).value();
  std::vector<Image> results;
  for (const Network* network : {&best, &*served, const_cast<const Network*>(&start_)}) {
    const auto executable = backend->Compile(*network, Precision::kExact).value();
    Image& result = results.emplace_back(ImageSpec{40, 34, 3, SampleType::kF32});
    ASSERT_TRUE(backend->CreateStream()
                    ->Run(*executable, std::vector<TileTask>{test::WholeTask(
                                           *executable, image.view(), result.mutable_view())})
                    .ok());
  }
  EXPECT_TRUE(test::SameImages(results[1].view(), results[0].view()));
  EXPECT_FALSE(test::SameImages(results[2].view(), results[0].view()));
}

// Networks that were not trained stay, and so does `fast`.
TEST_F(TrainingTest, TheModelKeepsTheStartsOtherNetworks) {
  const ModelRepository bundled = ModelRepository::Open({UPSCALED_BUNDLED_MODELS}).value();
  const ModelCard& start = **bundled.Find("general-2x");
  const ModelVariant& trained = *start.Find(2, 2);
  auto kept = KeepOtherNetworks(start, trained);
  ASSERT_TRUE(kept.ok()) << kept.status();
  ASSERT_EQ(kept->size(), 3u);
  const Network network = LoadNetwork(start, trained).value();
  ASSERT_TRUE(WriteModelFolder(
                  folder_ / "models/mine", network,
                  {.start = &start, .noise_level = 2, .kept = *std::move(kept), .images = "images"})
                  .ok());
  const ModelRepository repository = ModelRepository::Open({folder_ / "models"}).value();
  const ModelCard& card = **repository.Find("mine");
  EXPECT_EQ(card.NoiseLevels(), start.NoiseLevels());
  EXPECT_EQ(card.precisions, start.precisions);
  for (const ModelVariant& variant : start.variants) {
    const ModelVariant* own = card.Find(variant.scale, variant.noise_level);
    ASSERT_NE(own, nullptr) << variant.noise_level;
    EXPECT_EQ(ReadParameters(LoadNetwork(card, *own).value()),
              ReadParameters(LoadNetwork(start, variant).value()));
  }
  EXPECT_NE(Bytes("models/mine/CARD.md").find("scale 2 with noise level 3"), std::string::npos);
}

}  // namespace
}  // namespace upscaled::train
