// Finding devices, with and without plugins: these tests hold on every machine.
#include "engine/backends/backend_list.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/backends/plugin.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace upscaled {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<std::string> DeviceNames() {
  std::vector<std::string> names;
  for (const DeviceEnumeration::Device& device : EnumerateDevices().devices)
    names.push_back(device.name);
  return names;
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(BackendListTest, KnowsWhatIsBuiltIn) {
  const std::vector<std::string> names = DeviceNames();
  EXPECT_THAT(names, Contains("cpu"));
  EXPECT_EQ(names.back(), "reference");
}

TEST(BackendListTest, UnknownDeviceListsThoseThereAre) {
  const auto backend = CreateBackend("toaster", {});
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(backend.status()), AllOf(StartsWith("no device 'toaster', there are: auto, "),
                                               HasSubstr("cpu"), HasSubstr("reference")));
}

TEST(BackendListTest, AutoIsTheBest) {
  const auto backend = CreateBackend("auto", {});
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->name(), DeviceNames().front());
}

TEST(BackendListTest, TheBestIsTheFirstThatIsAvailable) {
  const DeviceEnumeration enumeration{.devices = {{"lost", ""}, {"there", ""}, {"worse", ""}},
                                      .notes = {}};
  std::vector<std::string> asked;
  const auto backend = CreateBest(
      enumeration, [&](const std::string& name) -> absl::StatusOr<std::unique_ptr<Backend>> {
        asked.push_back(name);
        if (name == "lost") return absl::UnavailableError("no driver");
        return CreateBackend("reference", {});
      });
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_THAT(asked, ::testing::ElementsAre("lost", "there"));
}

TEST(BackendListTest, TheBestIsNotLookedForBehindAnError) {
  const auto refuse = [](const std::string&) -> absl::StatusOr<std::unique_ptr<Backend>> {
    return absl::InvalidArgumentError("no such instruction set");
  };
  EXPECT_EQ(CreateBest({.devices = {{"cpu", ""}}, .notes = {}}, refuse).status(),
            absl::InvalidArgumentError("no such instruction set"));
  EXPECT_EQ(CreateBest({}, refuse).status().code(), absl::StatusCode::kUnavailable);
}

// Whether the plugin, the loader, a driver or only this device is missing: the message gives the
// reason.
TEST(BackendListTest, DevicesOfPluginsThatAreNotThereAreUnavailable) {
  for (const char* device : {"cuda:99", "opencl:99.0"}) {
    const auto backend = CreateBackend(device, {});
    EXPECT_EQ(backend.status().code(), absl::StatusCode::kUnavailable) << backend.status();
    EXPECT_FALSE(backend.status().message().empty());
  }
}

TEST(BackendListTest, EitherDevicesOfAPluginAreListedOrANoteSaysWhyNot) {
  const DeviceEnumeration enumeration = EnumerateDevices();
  for (const char* plugin : {"cuda", "opencl"}) {
    const auto listed = [&](const DeviceEnumeration::Device& device) {
      return absl::StartsWith(device.name, absl::StrCat(plugin, ":")) &&
             !device.description.empty();
    };
    const bool noted = std::any_of(
        enumeration.notes.begin(), enumeration.notes.end(),
        [&](const auto& note) { return absl::StartsWith(note, absl::StrCat(plugin, ": ")); });
    EXPECT_TRUE(noted ||
                std::any_of(enumeration.devices.begin(), enumeration.devices.end(), listed))
        << plugin;
  }
}

TEST(PluginTest, MissingFileIsUnavailable) {
  const auto plugin = LoadPlugin("/nonexistent/libplugin.so");
  EXPECT_EQ(plugin.status(), absl::UnavailableError("no plugin /nonexistent/libplugin.so"));
}

TEST(PluginTest, FileThatIsNoLibraryIsUnavailable) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/garbage.so");
  std::ofstream(path) << "no library";
  const auto plugin = LoadPlugin(path);
  EXPECT_EQ(plugin.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(plugin.status()), HasSubstr(path));
  std::filesystem::remove(path);
}

TEST(PluginTest, LibraryWithoutTheEntryIsRefused) {
  const auto plugin = LoadPlugin(UPSCALED_NO_PLUGIN);
  EXPECT_EQ(plugin.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(plugin.status()), HasSubstr("is no plugin of ours"));
}

// Another virtual function changes no size.
TEST(PluginTest, TheInterfaceIsKnownByItsText) {
  EXPECT_THAT(PluginAbi(), ::testing::MatchesRegex(".*, headers [0-9a-f]+"));
}

TEST(PluginTest, PluginOfAnotherBuildIsRefused) {
  const auto plugin = LoadPlugin(UPSCALED_FOREIGN_PLUGIN);
  EXPECT_EQ(plugin.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(plugin.status()),
              AllOf(HasSubstr("is of another build: 'of another time'"), HasSubstr(PluginAbi())));
}

}  // namespace
}  // namespace upscaled
