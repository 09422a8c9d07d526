#include "client/cli/ncnn_habits.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace upscaled::client {
namespace {

constexpr int kMinTilePx = 32, kMaxTilePx = 4096;

bool NamesFolder(const std::string& path) {
  std::error_code ignored;
  return path.find('/') != std::string::npos || std::filesystem::is_directory(path, ignored);
}

}  // namespace

std::vector<std::string> WithCommand(std::vector<std::string> arguments) {
  constexpr std::string_view kOfTheProgram[] = {"-h", "--help", "--version"};
  const bool begins_with_flag = !arguments.empty() && arguments[0].size() > 1 &&
                                arguments[0][0] == '-' &&
                                std::ranges::count(kOfTheProgram, arguments[0]) == 0;
  if (begins_with_flag) arguments.insert(arguments.begin(), "image");
  return arguments;
}

CLI::Validator NoiseLevel() {
  return {[](std::string& value) -> std::string {
            constexpr std::string_view kLevels[] = {"-1", "0", "1", "2", "3", "auto"};
            if (std::ranges::count(kLevels, value) != 0) return "";
            return absl::StrCat(value, " is not -1, 0, 1, 2, 3 or auto; to name a model, use -m");
          },
          ""};
}

CLI::Validator ModelName() {
  return {[](std::string& value) -> std::string {
            if (!NamesFolder(value)) return "";
            return absl::StrCat(
                value,
                " is a folder, and -m takes a model's name; give the folder to the server: "
                "upscaled --model-repository ",
                value, ", or, with --local, UPSCALED_MODEL_REPOSITORY=", value);
          },
          ""};
}

CLI::Validator TileSide() {
  return {[](std::string& value) -> std::string {
            int side_px = 0;
            const bool number = absl::SimpleAtoi(value, &side_px);
            if (number && (side_px == 0 || (side_px >= kMinTilePx && side_px <= kMaxTilePx))) {
              return "";
            }
            return absl::StrCat(value, " is not ", kMinTilePx, " to ", kMaxTilePx,
                                ", nor 0 for the server's choice");
          },
          ""};
}

CLI::Validator NoDevice() {
  return {[](std::string&) -> std::string {
            return "the server chooses its devices; start it with upscaled --device cuda:0, or, "
                   "with --local, set UPSCALED_DEVICE=cuda:0";
          },
          ""};
}

CLI::Validator ThreadCounts() {
  return {[](std::string& value) -> std::string {
            const std::vector<std::string> counts = absl::StrSplit(value, ':');
            if (counts.size() == 3)
              value = std::vector<std::string>(absl::StrSplit(counts[1], ','))[0];
            return "";
          },
          ""};
}

}  // namespace upscaled::client
