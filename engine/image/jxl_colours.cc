// Sources: ISO/IEC 18181-1, annex E (its numbers of transfers are those of CICP); ITU-T H.273.
#include "engine/image/jxl_colours.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace upscaled {
namespace {

struct NamedPrimaries {
  uint8_t cicp;
  JxlPrimaries primaries;
  JxlWhitePoint white;
};
constexpr NamedPrimaries kJxlPrimaries[] = {
    {1, JXL_PRIMARIES_SRGB, JXL_WHITE_POINT_D65},
    {9, JXL_PRIMARIES_2100, JXL_WHITE_POINT_D65},
    {11, JXL_PRIMARIES_P3, JXL_WHITE_POINT_DCI},
    {12, JXL_PRIMARIES_P3, JXL_WHITE_POINT_D65},
};

constexpr JxlTransferFunction kJxlTransfers[] = {
    JXL_TRANSFER_FUNCTION_709, JXL_TRANSFER_FUNCTION_LINEAR, JXL_TRANSFER_FUNCTION_SRGB,
    JXL_TRANSFER_FUNCTION_PQ,  JXL_TRANSFER_FUNCTION_DCI,    JXL_TRANSFER_FUNCTION_HLG};

}  // namespace

std::optional<std::string> CicpOf(const JxlColorEncoding& encoding) {
  const bool gray = encoding.color_space == JXL_COLOR_SPACE_GRAY;
  if (!gray && encoding.color_space != JXL_COLOR_SPACE_RGB) return std::nullopt;
  const auto* const found = std::ranges::find_if(kJxlPrimaries, [&](const NamedPrimaries& known) {
    return known.white == encoding.white_point && (gray || known.primaries == encoding.primaries);
  });
  const bool has_transfer =
      std::ranges::find(kJxlTransfers, encoding.transfer_function) != std::end(kJxlTransfers);
  if (found == std::end(kJxlPrimaries) || !has_transfer) return std::nullopt;
  if (found->cicp == 1 && encoding.transfer_function == JXL_TRANSFER_FUNCTION_SRGB) return "";
  return std::string{static_cast<char>(found->cicp), static_cast<char>(encoding.transfer_function),
                     0, 1};
}

std::optional<JxlColorEncoding> EncodingOfCicp(std::string_view cicp, bool gray) {
  if (cicp.size() != 4) return std::nullopt;
  const auto primaries = static_cast<uint8_t>(cicp[0]), transfer = static_cast<uint8_t>(cicp[1]);
  const auto* const known = std::ranges::find(kJxlPrimaries, primaries, &NamedPrimaries::cicp);
  const auto* const curve =
      std::ranges::find(kJxlTransfers, static_cast<JxlTransferFunction>(transfer));
  if (known == std::end(kJxlPrimaries) || curve == std::end(kJxlTransfers)) return std::nullopt;
  JxlColorEncoding encoding = {};
  encoding.color_space = gray ? JXL_COLOR_SPACE_GRAY : JXL_COLOR_SPACE_RGB;
  encoding.white_point = known->white;
  encoding.primaries = known->primaries;
  encoding.transfer_function = *curve;
  encoding.rendering_intent = JXL_RENDERING_INTENT_RELATIVE;
  return encoding;
}

}  // namespace upscaled
