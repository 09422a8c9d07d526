#include "server/models/model_catalog.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/error.h"
#include "server/models/model_chain.h"
#include "tests/client/temp_folder.h"
#include "tests/engine/model/weights_files.h"
#include "tests/server/models/slow_backend.h"

namespace upscaled::server {
namespace {

using client::ReadText;
using client::TempFolder;
using client::WriteText;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

absl::StatusOr<ModelCatalog> Bundled(const std::string& default_model) {
  return ModelCatalog::Create(*ModelRepository::Open({"engine/model/bundled"}),
                              {.default_model = default_model}, nullptr);
}

TEST(ModelCatalogTest, FindsByNameAndByDefault) {
  const auto catalog = Bundled("general-2x");
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  EXPECT_EQ((*catalog->Find("general-2x"))->card->name, "general-2x");
  EXPECT_EQ(*catalog->Find(""), *catalog->Find("general-2x"));
  EXPECT_EQ((*catalog->Find(""))->halo_px, 8);  // eight 3x3 layers
}

TEST(ModelCatalogTest, UnknownNamesListTheKnown) {
  const absl::Status status = Bundled("general-2x")->Find("other").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kUnknownModel);
  EXPECT_THAT(std::string(status.message()), HasSubstr("other"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("general-2x"));
}

TEST(ModelCatalogTest, TheDefaultMustBeThere) {
  const absl::Status status = Bundled("other").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("other"));
}

// Its repository may be called like a letter of any word.
TEST(ModelCatalogTest, ARefusalKeepsTheLettersOfAShortRepositorysName) {
  const TempFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  WriteText(folder / "m/m/model.json", R"({"name": "m", "family": "compact", "scale": 2,
      "files": {"param": "m.param", "bin": "m.bin"}})");
  WriteText(folder / "m/m/m.param", "7767517\n1 1\n");
  WriteText(folder / "m/m/m.bin", "");
  std::filesystem::current_path(folder.path());
  const auto bundled = before / "engine/model/bundled";
  const auto catalog = ModelCatalog::Create(*ModelRepository::Open({"m", bundled.string()}),
                                            {.default_model = "general-2x"}, nullptr);
  std::filesystem::current_path(before);
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  ASSERT_EQ(catalog->refused().size(), 1u);
  const std::string why(catalog->refused()[0].why.message());
  EXPECT_THAT(why, StartsWith("m/m.param: "));
  EXPECT_THAT(why, testing::Not(HasSubstr("the model repository")));
}

TEST(ModelCatalogTest, OneThatCannotBeRunIsRefusedAndTheOthersAreServed) {
  TempFolder folder;
  WriteText(folder / "4x-swin.pth", "no weights");
  WriteText(folder / "broken/model.json", R"({"name": "broken", "family": "x", "scale": 2,
      "files": {"param": "m.param", "bin": "m.bin"}})");
  WriteText(folder / "broken/m.param", "7767517\n1 1\n");
  WriteText(folder / "broken/m.bin", "");
  const auto create = [&](const std::string& default_model, std::vector<std::string>* heard) {
    return ModelCatalog::Create(
        *ModelRepository::Open({folder.path(), "engine/model/bundled"}),
        {.default_model = default_model,
         .on_refused = [heard](const std::string& model,
                               const absl::Status&) { heard->push_back(model); }},
        nullptr);
  };
  std::vector<std::string> heard;
  const auto catalog = create("general-2x", &heard);
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  EXPECT_THAT(heard, ElementsAre("4x-swin", "broken"));
  EXPECT_EQ(catalog->entries().size(), 2u);
  ASSERT_EQ(catalog->refused().size(), 2u);
  EXPECT_THAT(std::string(catalog->refused()[0].why.message()),
              StartsWith("4x-swin.pth: is in no known format"));
  EXPECT_THAT(std::string(catalog->refused()[1].why.message()), StartsWith("broken/m.param: "));
  const absl::Status status = catalog->Find("broken").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kUnknownModel);
  EXPECT_THAT(std::string(status.message()),
              StartsWith("model 'broken' is not served: broken/m.param: "));
  EXPECT_THAT(std::string(catalog->Find("other").status().message()),
              HasSubstr("there are: fast-2x, general-2x"));

  // The operator asks for it by name.
  EXPECT_THAT(std::string(create("4x-swin", &heard).status().message()),
              HasSubstr("4x-swin.pth: is in no known format"));
}

TEST(ModelCatalogTest, AVariantThatCannotBeRunIsRefusedAndNotItsModel) {
  TempFolder folder;
  const std::string stem = "video/realesr-video-x";
  for (const char* scale : {"2", "3", "4"}) {
    WriteText(folder / (stem + scale + ".param"),
              "7767517\n2 2\nInput in 0 1 x\nInterp i 1 1 x y 0=1 1=" + std::string(scale) +
                  " 2=" + scale + "\n");
    WriteText(folder / (stem + scale + ".bin"), "");
  }
  WriteText(folder / (stem + "2.param"), "7767517\n2 2\nInput in 0 1 x\nInterp i 1 1 x y 0=9\n");
  auto catalog = ModelCatalog::Create(
      *ModelRepository::Open({folder.path(), "engine/model/bundled"}), {}, nullptr);
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  EXPECT_THAT((*catalog->Find("realesr-video"))->card->Scales(), ElementsAre(3, 4));
  ASSERT_EQ(catalog->refused().size(), 1u);
  EXPECT_EQ(catalog->refused()[0].name, "realesr-video/realesr-video-x2");
  EXPECT_THAT(std::string(catalog->refused()[0].why.message()),
              HasSubstr("resize type 9 is not supported"));

  // A reload finds it, too; a served variant with a fault keeps all as it is.
  const auto reload = [&] {
    const auto turn = catalog->TryTurn();
    return catalog->Reload(*turn, {}, nullptr);
  };
  auto report = reload();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->unchanged, UnorderedElementsAre("fast-2x", "general-2x", "realesr-video"));
  WriteText(folder / (stem + "3.param"), "7767517\n2 2\nInput in 0 1 x\nInterp i 1 1 x y 0=9\n");
  EXPECT_THAT(std::string(reload().status().message()), HasSubstr("realesr-video-x3.param"));
  EXPECT_THAT((*catalog->Find("realesr-video"))->card->Scales(), ElementsAre(3, 4));
}

TEST(ModelCatalogTest, FindsChainsByNamesWithCommas) {
  TempFolder folder;
  WriteText(folder / "aliases.json", R"({"art": "fast-2x"})");
  const auto catalog = ModelCatalog::Create(
      *ModelRepository::Open({folder.path(), "engine/model/bundled"}), {}, nullptr);
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  const auto name = [&](const std::string& names) {
    const auto chain = catalog->FindChain(names);
    return chain.ok() ? chain->name() : std::string(chain.status().message());
  };
  EXPECT_EQ(name(""), "general-2x");
  EXPECT_EQ(name("art"), "fast-2x");
  EXPECT_EQ(name("art, general-2x"), "fast-2x,general-2x");
  EXPECT_EQ(name("general-2x,default"), "general-2x,general-2x");
  EXPECT_THAT(name("art,other"), HasSubstr("no model 'other'"));
  EXPECT_THAT(name("other"), HasSubstr("no model 'other'"));
  EXPECT_EQ(catalog->FindChain("a,other").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(name("art,,art"), HasSubstr("a name between its commas is empty"));
  EXPECT_THAT(name("art,"), HasSubstr("a name between its commas is empty"));
  EXPECT_THAT(name("1,2,3,4,5,6,7,8,9"), HasSubstr("names 9 models; the limit is 8"));
  const auto chain = catalog->FindChain("art,general-2x");
  EXPECT_EQ(&chain->EntryOf(*chain->cards()[1]), chain->links()[1].get());
}

TEST(ModelCatalogTest, AliasesStandForModelsAndOneIsTheDefault) {
  TempFolder folder;
  const auto create = [&](const std::string& default_model) {
    return ModelCatalog::Create(*ModelRepository::Open({folder.path(), "engine/model/bundled"}),
                                {.default_model = default_model}, nullptr);
  };
  EXPECT_EQ(create("")->default_model(), "general-2x");
  WriteText(folder / "aliases.json",
            R"({"default": "fast-2x", "art": "general-2x", "photo": "gone", "fast-2x": "gone"})");
  const auto catalog = create("");
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  EXPECT_EQ(catalog->default_model(), "fast-2x");
  EXPECT_EQ((*catalog->Find(""))->card->name, "fast-2x");
  EXPECT_EQ((*catalog->Find("default"))->card->name, "fast-2x");
  EXPECT_EQ((*catalog->Find("art"))->card->name, "general-2x");
  EXPECT_EQ((*catalog->Find("fast-2x"))->card->name, "fast-2x") << "a model's name is its own";
  EXPECT_THAT((*catalog->Find("art"))->aliases, ElementsAre("art"));
  EXPECT_THAT((*catalog->Find(""))->aliases, ElementsAre("default"));
  EXPECT_EQ(catalog->Find("photo").status().code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(catalog->refused().size(), 1u);
  EXPECT_EQ(catalog->refused()[0].name, "photo");
  EXPECT_EQ(catalog->refused()[0].why.message(), "is an alias of 'gone', which is not served");
  // The flag decides before the file, and takes aliases, too.
  EXPECT_EQ(create("art")->default_model(), "general-2x");
  EXPECT_THAT(std::string(create("photo").status().message()), HasSubstr("no model 'gone'"));
}

TEST(ModelCatalogTest, LicencesThatTheOperatorDoesNotNameAreRefused) {
  const auto create = [](std::vector<std::string> licences) {
    return ModelCatalog::Create(*ModelRepository::Open({"engine/model/bundled"}),
                                {.allowed_licences = std::move(licences)}, nullptr);
  };
  EXPECT_TRUE(create({}).ok());
  const auto catalog = create({"MIT", "cc0-1.0"});
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  EXPECT_THAT(catalog->refused(), IsEmpty());
  EXPECT_EQ(create({"MIT", "unstated"}).status().message(),
            "model 'general-2x' is not served: model 'general-2x' has the licence 'CC0-1.0', "
            "--allow-licences has MIT, unstated");
}

TEST(ModelCatalogTest, KnowsWhatAModelCostsAndHowFastItHasBeen) {
  auto catalog = Bundled("general-2x");
  const std::shared_ptr<const CatalogEntry> entry = *catalog->Find("");
  EXPECT_EQ(entry->macs_per_pixel, 32'724);
  // Eight layers of 3x3, the last of 12 shuffled channels: 4 pixels share their work.
  EXPECT_GT(entry->weight_bytes, 4 * 4 * 32'724);
  EXPECT_EQ(catalog->TimePerMegapixel(*entry), std::nullopt);
  catalog->RecordRun("fast-2x", absl::Seconds(1), 1'000'000);
  EXPECT_EQ(catalog->TimePerMegapixel(*entry), std::nullopt);
  catalog->RecordRun("general-2x", absl::Seconds(1), 65'448'000'000);
  EXPECT_EQ(catalog->TimePerMegapixel(*entry), absl::Milliseconds(500));
}

TEST(ModelCatalogTest, MemoryIsPlannedOfTheNativeScaleInTheDefaultPrecision) {
  const auto memory_of = [](Precision wanted, const absl::Status& fast) {
    std::vector<Precision> asked;
    const auto catalog = ModelCatalog::Create(
        *ModelRepository::Open({"engine/model/bundled"}), {.default_precision = wanted},
        [&](const Network&, Precision) { return fast; },
        [&](const Network& network, Precision precision) {
          asked.push_back(precision);
          return network.WeightCount();
        });
    EXPECT_TRUE(catalog.ok()) << catalog.status();
    const auto entry = *catalog->Find("general-2x");
    EXPECT_EQ(entry->memory_bytes * int64_t{sizeof(float)}, entry->weight_bytes);
    return asked;
  };
  const auto no_fast = absl::UnimplementedError("no fp16 here");
  EXPECT_THAT(memory_of(Precision::kFast, absl::OkStatus()), Each(Precision::kFast));
  EXPECT_THAT(memory_of(Precision::kFast, no_fast), Each(Precision::kExact));
  EXPECT_THAT(memory_of(Precision::kExact, no_fast), SizeIs(2)) << "a network of each model";
}

TEST(ModelCatalogTest, TellsWhatTensorsWereTakenForAndWhatTheNetworkLooksAt) {
  TempFolder folder;
  std::vector<test::NamedShape> shapes;  // ArtCNN of luma, with no blocks
  for (const auto& conv :
       {test::ConvShapes("conv0", 4, 1, 3), test::ConvShapes("res_block.0", 4, 4, 3),
        test::ConvShapes("depth_to_space.upscale.0", 4, 4, 3)}) {
    shapes.insert(shapes.end(), conv.begin(), conv.end());
  }
  WriteText(folder / "luma.safetensors", test::SafetensorsOf(shapes));
  const auto catalog = ModelCatalog::Create(
      *ModelRepository::Open({folder.path(), "engine/model/bundled"}), {}, nullptr);
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  const auto luma = *catalog->Find("luma"), bundled = *catalog->Find("general-2x");
  EXPECT_EQ(luma->architecture, "artcnn");
  EXPECT_EQ(luma->input_channels, 1);
  EXPECT_EQ(bundled->architecture, "");
  EXPECT_EQ(bundled->input_channels, 3);
}

TEST(ModelCatalogTest, TheNativeScaleIsTheLeastAboveOne) {
  ModelCard card;
  card.variants = {{.scale = 1}, {.scale = 4}, {.scale = 3}};
  EXPECT_EQ(NativeScale(card), 3);
  card.variants = {{.scale = 1, .noise_level = 2}};
  EXPECT_EQ(NativeScale(card), 1);
}

// A directory with the bundled model under several names, a cache, and a catalog of it.
class ReloadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    AddModel("first");
    AddModel("second");
    backend_.Open();
    auto catalog =
        ModelCatalog::Create(*ModelRepository::Open({folder_.path()}),
                             {.default_model = "first",
                              .default_precision = Precision::kFast,
                              .on_exact = [this](const std::string& model,
                                                 const absl::Status&) { exact_.push_back(model); }},
                             try_precision_);
    ASSERT_TRUE(catalog.ok()) << catalog.status();
    catalog_.emplace(*std::move(catalog));
  }

  void AddModel(const std::string& name) {
    const std::filesystem::path bundled = "engine/model/bundled/fast-2x";
    std::string card = ReadText(bundled / "model.json");
    card.replace(card.find("fast-2x"), std::string("fast-2x").size(), name);
    WriteText(folder_ / (name + "/model.json"), card);
    WriteText(folder_ / (name + "/model.param"), ReadText(bundled / "model.param"));
    WriteText(folder_ / (name + "/model.bin"), ReadText(bundled / "model.bin"));
  }
  // Next to the old ones, and renamed into place.
  void ReplaceWeights(const std::string& name, const std::string& bytes) {
    WriteText(folder_ / "new.bin", bytes);
    std::filesystem::rename(folder_ / "new.bin", folder_ / (name + "/model.bin"));
  }
  std::string Weights(const std::string& name) { return ReadText(folder_ / (name + "/model.bin")); }

  absl::StatusOr<std::shared_ptr<const Executable>> Load(const CatalogEntry& entry) {
    return cache_.Get(*entry.card, entry.card->variants.front(), Precision::kExact);
  }

  absl::StatusOr<ReloadReport> Reload() {
    const absl::StatusOr<ModelCatalog::Turn> turn = catalog_->TryTurn();
    if (!turn.ok()) return turn.status();
    return catalog_->Reload(*turn, std::vector<ModelCache*>{&cache_}, try_precision_);
  }

  TempFolder folder_;
  absl::Status fast_;               // the outcome of a candidate
  std::vector<std::string> exact_;  // models that were found to have no other precision
  const PrecisionProbe try_precision_ = [this](const Network&, Precision precision) {
    EXPECT_EQ(precision, Precision::kFast);
    return fast_;
  };
  test::SlowBackend backend_;
  ModelCache cache_{backend_};
  std::optional<ModelCatalog> catalog_;
};

TEST_F(ReloadTest, FindsWhatHasChanged) {
  AddModel("third");
  std::filesystem::remove_all(folder_ / "second");
  ReplaceWeights("first", Weights("first"));
  auto report = Reload();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->added, ElementsAre("third"));
  EXPECT_THAT(report->changed, ElementsAre("first"));
  EXPECT_THAT(report->removed, ElementsAre("second"));
  EXPECT_THAT(report->unchanged, IsEmpty());
  EXPECT_TRUE(catalog_->Find("third").ok());
  EXPECT_EQ(catalog_->Find("second").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ((*catalog_->Find("third"))->halo_px, 5);

  report = Reload();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->unchanged, ElementsAre("first", "third"));
  EXPECT_THAT(report->changed, IsEmpty());
}

TEST_F(ReloadTest, WhatIsInUseIsCompiledBeforeItIsNeeded) {
  ASSERT_TRUE(Load(**catalog_->Find("first")).ok());
  ASSERT_TRUE(Load(**catalog_->Find("second")).ok());
  ReplaceWeights("first", Weights("first"));
  ASSERT_TRUE(Reload().ok());
  EXPECT_EQ(backend_.AwaitCompiling(3), 3);  // the second has not changed
  ASSERT_TRUE(Load(**catalog_->Find("first")).ok());
  ASSERT_TRUE(Load(**catalog_->Find("second")).ok());
  EXPECT_EQ(backend_.AwaitCompiling(3), 3);
  EXPECT_EQ(cache_.loaded_count(), 2);
}

TEST_F(ReloadTest, AnOldListingKeepsWhatWasCompiledOfItAndNobodyElse) {
  std::shared_ptr<const CatalogEntry> old = *catalog_->Find("first");
  std::weak_ptr<const Executable> old_executable = *Load(*old);
  ReplaceWeights("first", Weights("first"));
  ASSERT_TRUE(Reload().ok());
  // A request from before the reload still gets the same.
  EXPECT_EQ(*Load(*old), old_executable.lock());
  EXPECT_NE(*Load(**catalog_->Find("first")), old_executable.lock());
  EXPECT_EQ(cache_.loaded_count(), 2);
  old.reset();
  EXPECT_EQ(cache_.loaded_count(), 1);
  cache_.DropUnlisted();
  EXPECT_TRUE(old_executable.expired());
}

TEST_F(ReloadTest, ANewVersionGetsTheModelsNameAndTheOldOneItsNumber) {
  AddModel("scans");
  std::filesystem::create_directory(folder_ / "scans/1");
  for (const char* file : {"model.json", "model.param", "model.bin"}) {
    std::filesystem::rename(folder_ / "scans" / file, folder_ / "scans/1" / file);
  }
  std::string card = ReadText(folder_ / "scans/1/model.json");
  const size_t field = card.find("\"version\"");  // the folder says it
  WriteText(folder_ / "scans/1/model.json", card.erase(field, card.find(',', field) + 1 - field));
  ASSERT_TRUE(Reload().ok());
  EXPECT_EQ((*catalog_->Find("scans@1"))->card->name, "scans");
  const auto old_executable = *Load(**catalog_->Find("scans"));

  std::filesystem::copy(folder_ / "scans/1", folder_ / "scans/2");
  const auto report = Reload();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->changed, ElementsAre("scans"));
  EXPECT_THAT(report->added, ElementsAre("scans@1"));
  EXPECT_EQ((*catalog_->Find("scans"))->card->version, 2);
  EXPECT_EQ((*catalog_->Find("scans@1"))->card->version, 1);
  EXPECT_NE(*Load(**catalog_->Find("scans")), old_executable);
}

TEST_F(ReloadTest, BrokenWeightsChangeNothing) {
  const std::shared_ptr<const CatalogEntry> old = *catalog_->Find("second");
  const auto old_executable = *Load(*old);
  AddModel("third");
  ReplaceWeights("second", Weights("second").substr(0, 1000));
  const absl::Status status = Reload().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kReloadFailed);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the models stay as they are"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("second/model.param"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("weights end too early"));
  EXPECT_FALSE(catalog_->Find("third").ok());
  EXPECT_EQ(*catalog_->Find("second"), old);
  EXPECT_EQ(*Load(*old), old_executable);

  ReplaceWeights("second", ReadText("engine/model/bundled/fast-2x/model.bin"));
  EXPECT_TRUE(Reload().ok());
  EXPECT_TRUE(catalog_->Find("third").ok());
}

TEST_F(ReloadTest, ANewModelThatIsBrokenIsRefusedAlone) {
  AddModel("third");
  AddModel("fourth");
  WriteText(folder_ / "fourth/model.bin", "");
  auto report = Reload();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->added, ElementsAre("third"));
  ASSERT_EQ(catalog_->refused().size(), 1u);
  EXPECT_EQ(catalog_->refused()[0].name, "fourth");

  AddModel("fourth");
  report = Reload();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->added, ElementsAre("fourth"));
  EXPECT_THAT(catalog_->refused(), IsEmpty());
}

TEST_F(ReloadTest, BrokenAliasesChangeNothing) {
  WriteText(folder_ / "aliases.json", R"({"art": "second"})");
  ASSERT_TRUE(Reload().ok());
  ASSERT_TRUE(catalog_->Find("art").ok());
  WriteText(folder_ / "aliases.json", R"({"art": )");
  EXPECT_THAT(std::string(Reload().status().message()), HasSubstr("aliases.json"));
  EXPECT_TRUE(catalog_->Find("art").ok());
  std::filesystem::remove(folder_ / "aliases.json");
  ASSERT_TRUE(Reload().ok());
  EXPECT_FALSE(catalog_->Find("art").ok());
}

TEST_F(ReloadTest, ADeviceThatRefusesChangesNothing) {
  const std::shared_ptr<const CatalogEntry> old = *catalog_->Find("first");
  const auto old_executable = *Load(*old);
  ReplaceWeights("first", Weights("first"));
  backend_.RunOutOfMemory();
  EXPECT_EQ(Reload().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(*catalog_->Find("first"), old);
  EXPECT_EQ(*Load(*old), old_executable);
  EXPECT_EQ(cache_.loaded_count(), 1);
}

TEST_F(ReloadTest, TheDefaultMayNotGo) {
  std::filesystem::remove_all(folder_ / "first");
  const absl::Status status = Reload().status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kReloadFailed);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no model 'first', there are: second"));
  EXPECT_TRUE(catalog_->Find("").ok());
}

TEST_F(ReloadTest, FilesThatWereReplacedAreNotReadAsThoseThatWereListed) {
  const std::shared_ptr<const CatalogEntry> entry = *catalog_->Find("first");
  ReplaceWeights("first", Weights("first"));
  const absl::Status status = Load(*entry).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kReloadFailed);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the files of model first have been replaced since they were listed; the "
                        "server's models must be reloaded"));
}

TEST_F(ReloadTest, AModelWithoutTheDefaultPrecisionRunsInExact) {
  EXPECT_EQ((*catalog_->Find("first"))->default_precision, Precision::kFast);
  fast_ = absl::UnimplementedError("no fp16");
  AddModel("third");
  ReplaceWeights("second", Weights("second"));
  ASSERT_TRUE(Reload().ok());
  EXPECT_EQ((*catalog_->Find("first"))->default_precision, Precision::kFast) << "has not changed";
  EXPECT_EQ((*catalog_->Find("second"))->default_precision, Precision::kExact);
  EXPECT_EQ((*catalog_->Find("third"))->default_precision, Precision::kExact);
  EXPECT_THAT(exact_, UnorderedElementsAre("second", "third"));
}

TEST_F(ReloadTest, WithoutADeviceToTryAModelOnNothingChanges) {
  fast_ = absl::UnavailableError("no device is left");
  AddModel("third");
  const absl::Status status = Reload().status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kReloadFailed);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no device is left"));
  EXPECT_FALSE(catalog_->Find("third").ok());
  EXPECT_THAT(exact_, IsEmpty());
}

TEST_F(ReloadTest, OneAtATime) {
  ASSERT_TRUE(Load(**catalog_->Find("first")).ok());
  ReplaceWeights("first", Weights("first"));
  backend_.Close();
  std::thread first([this] { EXPECT_TRUE(Reload().ok()); });
  backend_.AwaitCompiling(2);
  const absl::Status status = Reload().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kReloadFailed);
  EXPECT_EQ(status.message(), "another reload is running");
  bool over = false;
  std::thread second([&] {
    const ModelCatalog::Turn turn = catalog_->AwaitTurn();
    EXPECT_EQ(catalog_->TryTurn().status().code(), absl::StatusCode::kAborted);
    over = true;
  });
  backend_.Open();
  first.join();
  second.join();
  EXPECT_TRUE(over);
  EXPECT_TRUE(catalog_->TryTurn().ok());
}

}  // namespace
}  // namespace upscaled::server
