#include "client/cli/ncnn_habits.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace upscaled::client {
namespace {

constexpr int kMinTilePx = 32, kMaxTilePx = 4096;

// Flags of the family and of Upscayl's program, and what to do instead.
constexpr struct {
  const char* flag;
  const char* instead;
} kRefused[] = {
    {"-g",
     "the server chooses its devices; start it with upscaled --device cuda:0, or, with --local, "
     "set UPSCALED_DEVICE=cuda:0"},
    {"-c",
     "Real-CUGAN's gap between tiles is not needed, since tiles do not change a result; Upscayl's "
     "compression is -q or --png-compression"},
    {"-z", "a model's scale is known; give the result's by -s"},
    {"-r", "give the result's size by --width and --height, with --fit stretch to distort"},
};

bool IsTileSide(absl::string_view text) {
  int side_px = 0;
  return absl::SimpleAtoi(text, &side_px) &&
         (side_px == 0 || (side_px >= kMinTilePx && side_px <= kMaxTilePx));
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
            int level = 0;  // of SRMD, to 10
            const bool is_level = absl::SimpleAtoi(value, &level);
            return absl::StrCat(value, " is not -1, 0, 1, 2, 3 or auto; ",
                                is_level ? "the strongest is -n 3" : "to name a model, use -m");
          },
          ""};
}

CLI::Validator ModelName() {
  return {[](std::string& value) -> std::string {
            if (!absl::StrContains(value, '/')) return "";
            return absl::StrCat(
                value,
                " is a folder, and -m takes a model's name; give the folder to the server: "
                "upscaled --model-repository ",
                value, ", or, with --local, UPSCALED_MODEL_REPOSITORY=", value,
                "; 'upscale models' lists the names");
          },
          ""};
}

CLI::Validator WidthWithoutFilter() {
  return {[](std::string& value) -> std::string {
            const size_t colon = value.find(':');
            if (colon == std::string::npos) return "";
            if (absl::string_view(value).substr(colon) != ":default") {
              return absl::StrCat(value, " names a filter, which the server chooses; use -w ",
                                  value.substr(0, colon));
            }
            value.resize(colon);
            return "";
          },
          ""};
}

CLI::Validator TileSide() {
  return {[](std::string& value) -> std::string {
            const std::vector<std::string> sides = absl::StrSplit(value, ',');
            if (!std::ranges::all_of(sides, IsTileSide)) {
              return absl::StrCat(value, " is not ", kMinTilePx, " to ", kMaxTilePx,
                                  ", nor 0 for the server's choice");
            }
            value = sides[0];
            return "";
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

void AddRefusedFlags(CLI::App& command) {
  for (const auto& [flag, instead] : kRefused) {
    const auto refuse = [flag = flag, instead = instead](const std::string&) {
      throw CLI::ValidationError(flag, instead);
    };
    command.add_option_function<std::string>(flag, refuse)->group("");
  }
}

}  // namespace upscaled::client
