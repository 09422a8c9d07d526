// Sources: PNG specification (third edition), sections 4.3 and 11.3.2; ITU-T H.273, tables 2 and 3.
#include "engine/image/colour_profile.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <type_traits>

#include <lcms2.h>
#include <lcms2_plugin.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/image/endian.h"
#include "engine/image/memory_io.h"

namespace upscaled {
namespace {

// A profile may ask for tables of any size.
constexpr cmsUInt32Number kMaxAllocationBytes = 64 << 20;

void* Allocate(cmsContext, cmsUInt32Number bytes) {
  return bytes > kMaxAllocationBytes ? nullptr : std::malloc(bytes);
}
void* Reallocate(cmsContext, void* old, cmsUInt32Number bytes) {
  return bytes > kMaxAllocationBytes ? nullptr : std::realloc(old, bytes);
}
void Free(cmsContext, void* memory) { std::free(memory); }

struct DeleteContext {
  void operator()(cmsContext context) const { cmsDeleteContext(context); }
};
using Context = std::unique_ptr<std::remove_pointer_t<cmsContext>, DeleteContext>;

Context MakeContext() {
  cmsPluginMemHandler memory = {};
  memory.base = {cmsPluginMagicNumber, 2000, cmsPluginMemHandlerSig, nullptr};
  memory.MallocPtr = Allocate;
  memory.FreePtr = Free;
  memory.ReallocPtr = Reallocate;
  return Context(cmsCreateContext(&memory, nullptr));
}

struct CloseProfile {
  void operator()(void* profile) const { cmsCloseProfile(profile); }
};
using Profile = std::unique_ptr<void, CloseProfile>;

// Chromaticities and the function from samples to light.
struct Colours {
  cmsCIExyY white;
  cmsCIExyYTRIPLE primaries;
  cmsInt32Number curve_type = 4;  // of cmsBuildParametricToneCurve
  double curve[5] = {2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045};
  bool is_srgb = true;
};

constexpr cmsCIExyY kD65 = {0.3127, 0.3290, 1};
constexpr cmsCIExyYTRIPLE kBt709 = {{0.64, 0.33, 1}, {0.30, 0.60, 1}, {0.15, 0.06, 1}};

void SetGamma(double gamma, Colours& colours) {
  colours.curve_type = 1;
  colours.curve[0] = gamma;
}

// False: values reserved, or beyond any profile.
bool ParseCicp(std::string_view cicp, Colours& colours) {
  struct Primaries {
    int code;
    cmsCIExyY white;
    cmsCIExyYTRIPLE primaries;
  };
  static constexpr cmsCIExyY kC = {0.310, 0.316, 1}, kDci = {0.314, 0.351, 1};
  static constexpr Primaries kPrimaries[] = {
      {1, kD65, kBt709},
      {4, kC, {{0.67, 0.33, 1}, {0.21, 0.71, 1}, {0.14, 0.08, 1}}},
      {5, kD65, {{0.64, 0.33, 1}, {0.29, 0.60, 1}, {0.15, 0.06, 1}}},
      {6, kD65, {{0.630, 0.340, 1}, {0.310, 0.595, 1}, {0.155, 0.070, 1}}},
      {7, kD65, {{0.630, 0.340, 1}, {0.310, 0.595, 1}, {0.155, 0.070, 1}}},
      {8, kC, {{0.681, 0.319, 1}, {0.243, 0.692, 1}, {0.145, 0.049, 1}}},
      {9, kD65, {{0.708, 0.292, 1}, {0.170, 0.797, 1}, {0.131, 0.046, 1}}},
      {11, kDci, {{0.680, 0.320, 1}, {0.265, 0.690, 1}, {0.150, 0.060, 1}}},
      {12, kD65, {{0.680, 0.320, 1}, {0.265, 0.690, 1}, {0.150, 0.060, 1}}},
      {22, kD65, {{0.630, 0.340, 1}, {0.295, 0.605, 1}, {0.155, 0.077, 1}}},
  };
  // PNG has no matrix; samples of narrow range are no profile's.
  if (cicp.size() != 4 || cicp[2] != 0 || cicp[3] != 1) return false;
  // Browsers take numbers that are not specified for sRGB's.
  constexpr int kUnspecified = 2, kBt709Primaries = 1, kSrgbTransfer = 13;
  const int primaries = cicp[0] == kUnspecified ? kBt709Primaries : cicp[0];
  const int transfer = cicp[1] == kUnspecified ? kSrgbTransfer : cicp[1];
  const auto* found = std::ranges::find(kPrimaries, primaries, &Primaries::code);
  if (found == std::end(kPrimaries)) return false;
  colours.white = found->white;
  colours.primaries = found->primaries;
  colours.is_srgb = primaries == kBt709Primaries && transfer == kSrgbTransfer;
  switch (transfer) {
    case 1:
    case 6:
    case 11:  // as 1 for the samples that there are, from 0 to 1
    case 12:
    case 14:
    case 15: {
      constexpr double kBt709Curve[] = {1 / 0.45, 1 / 1.099, 0.099 / 1.099, 1 / 4.5, 0.081};
      std::ranges::copy(kBt709Curve, colours.curve);
      return true;
    }
    case 4:
      SetGamma(2.2, colours);
      return true;
    case 5:
      SetGamma(2.8, colours);
      return true;
    case 7: {
      constexpr double kSmpte240Curve[] = {1 / 0.45, 1 / 1.1115, 0.1115 / 1.1115, 1 / 4.0,
                                           4 * 0.0228};
      std::ranges::copy(kSmpte240Curve, colours.curve);
      return true;
    }
    case 8:
      SetGamma(1, colours);
      return true;
    case kSrgbTransfer:
      return true;
    case 17:
      SetGamma(2.6, colours);
      return true;
    default:
      return false;
  }
}

// In units of 1/100000; false: not in the specification's range.
bool ParseChromaticities(std::string_view chrm, Colours& colours) {
  if (chrm.size() != 32) return false;
  cmsCIExyY* const points[] = {&colours.white, &colours.primaries.Red, &colours.primaries.Green,
                               &colours.primaries.Blue};
  for (int i = 0; i < 4; ++i) {
    points[i]->x = LoadBe32(AsBytes(chrm).data() + 8 * i) / 100000.0;
    points[i]->y = LoadBe32(AsBytes(chrm).data() + 8 * i + 4) / 100000.0;
    points[i]->Y = 1;
    if (points[i]->x > 1 || points[i]->y > 1 || points[i]->y <= 0) return false;
  }
  const cmsCIExyYTRIPLE& at = colours.primaries;
  const double twice_area = (at.Green.x - at.Red.x) * (at.Blue.y - at.Red.y) -
                            (at.Blue.x - at.Red.x) * (at.Green.y - at.Red.y);
  constexpr double kMinArea = 1e-4;  // of sRGB's: 0.11
  return std::abs(twice_area) >= 2 * kMinArea;
}

bool ParseGamma(std::string_view gama, Colours& colours) {
  if (gama.size() != 4) return false;
  const double encoding = LoadBe32(AsBytes(gama).data()) / 100000.0;
  if (encoding < 0.01 || encoding > 10) return false;
  SetGamma(1 / encoding, colours);
  return true;
}

const std::string* Find(std::span<const ColourChunk> chunks, std::string_view type) {
  const auto found = std::ranges::find(chunks, type, &ColourChunk::type);
  return found == chunks.end() ? nullptr : &found->data;
}

Colours ColoursOf(std::span<const ColourChunk> chunks, std::vector<std::string>& unusable) {
  Colours colours = {kD65, kBt709};
  if (Find(chunks, "sRGB") != nullptr) return colours;
  const std::string* const gama = Find(chunks, "gAMA");
  const std::string* const chrm = Find(chunks, "cHRM");
  const bool has_gamma = gama != nullptr && ParseGamma(*gama, colours);
  Colours with_chrm = colours;
  const bool has_chrm = chrm != nullptr && ParseChromaticities(*chrm, with_chrm);
  if (has_chrm) colours = with_chrm;
  if (gama != nullptr && !has_gamma) unusable.emplace_back("gAMA");
  if (chrm != nullptr && !has_chrm) unusable.emplace_back("cHRM");
  colours.is_srgb = !has_gamma && !has_chrm;
  return colours;
}

Profile MakeProfile(cmsContext context, const Colours& colours, bool gray) {
  cmsToneCurve* const curve =
      cmsBuildParametricToneCurve(context, colours.curve_type, colours.curve);
  if (curve == nullptr) return nullptr;
  cmsToneCurve* const curves[3] = {curve, curve, curve};
  Profile profile(
      gray ? cmsCreateGrayProfileTHR(context, cmsD50_xyY(), curve)
           : cmsCreateRGBProfileTHR(context, &colours.white, &colours.primaries, curves));
  cmsFreeToneCurve(curve);
  return profile;
}

// The same bytes at any time: the date of creation is the standard's.
std::string Serialize(const Profile& profile) {
  cmsUInt32Number bytes = 0;
  if (profile == nullptr || !cmsSaveProfileToMem(profile.get(), nullptr, &bytes)) return {};
  std::string result(bytes, '\0');
  if (!cmsSaveProfileToMem(profile.get(), result.data(), &bytes)) return {};
  constexpr size_t kDateOffset = 24, kIdOffset = 84, kIdBytes = 16;
  constexpr std::string_view kDate("\x07\xe8\0\x01\0\x01\0\0\0\0\0\0", 12);
  if (result.size() < kIdOffset + kIdBytes) return {};
  result.replace(kDateOffset, kDate.size(), kDate);
  result.replace(kIdOffset, kIdBytes, kIdBytes, '\0');
  return result;
}

}  // namespace

void CmykToSrgb::Delete::operator()(void* transform) const {
  cmsContext context = cmsGetTransformContextID(transform);
  cmsDeleteTransform(transform);
  cmsDeleteContext(context);
}

std::string_view SpaceOfProfile(std::string_view icc_profile) {
  constexpr size_t kSpaceOffset = 16, kSignatureOffset = 36;
  constexpr std::string_view kSignature = "acsp";
  static_assert(kSignatureOffset + kSignature.size() == kIccHeadBytes);
  if (icc_profile.size() < kIccHeadBytes ||
      icc_profile.substr(kSignatureOffset, kSignature.size()) != kSignature)
    return {};
  const std::string_view space = icc_profile.substr(kSpaceOffset, 4);
  return std::ranges::all_of(space, [](char c) { return absl::ascii_isprint(c); })
             ? space
             : std::string_view();
}

std::string CmykWarning(const char* format, bool has_profile, std::string_view profile_head) {
  const bool is_other = !profile_head.empty() && SpaceOfProfile(profile_head) != "CMYK";
  return absl::StrCat(format, ": its CMYK colours are turned into sRGB ",
                      !has_profile ? "without a profile, as browsers do"
                      : is_other   ? "as browsers do, without its profile, which describes no CMYK"
                                   : "by its profile if that can be applied, else as browsers do");
}

std::unique_ptr<CmykToSrgb> CmykToSrgb::Create(std::string_view icc_profile, SampleType type) {
  Context context = MakeContext();
  if (context == nullptr) return nullptr;
  const Profile cmyk(
      cmsOpenProfileFromMemTHR(context.get(), icc_profile.data(), icc_profile.size()));
  if (cmyk == nullptr || cmsGetColorSpace(cmyk.get()) != cmsSigCmykData) return nullptr;
  const Profile srgb(cmsCreate_sRGBProfileTHR(context.get()));
  if (srgb == nullptr) return nullptr;
  const bool wide = type == SampleType::kU16;
  void* const transform = cmsCreateTransformTHR(
      context.get(), cmyk.get(), wide ? TYPE_CMYK_16_REV : TYPE_CMYK_8_REV, srgb.get(),
      wide ? TYPE_RGB_16 : TYPE_RGB_8, INTENT_RELATIVE_COLORIMETRIC, cmsFLAGS_NOCACHE);
  if (transform == nullptr) return nullptr;
  (void)context.release();  // goes with the transform
  return std::unique_ptr<CmykToSrgb>(new CmykToSrgb(transform));
}

void CmykToSrgb::Convert(const void* cmyk, int width_px, void* rgb) const {
  cmsDoTransform(transform_.get(), cmyk, rgb, static_cast<cmsUInt32Number>(width_px));
}

bool DescribesSamples(std::string_view icc_profile, bool gray) {
  const Context context = MakeContext();
  if (context == nullptr) return false;
  const Profile profile(
      cmsOpenProfileFromMemTHR(context.get(), icc_profile.data(), icc_profile.size()));
  if (profile == nullptr ||
      cmsGetColorSpace(profile.get()) != (gray ? cmsSigGrayData : cmsSigRgbData) ||
      cmsGetDeviceClass(profile.get()) == cmsSigLinkClass)
    return false;
  const Profile srgb(cmsCreate_sRGBProfileTHR(context.get()));
  if (srgb == nullptr) return false;
  void* const transform = cmsCreateTransformTHR(
      context.get(), profile.get(), gray ? TYPE_GRAY_FLT : TYPE_RGB_FLT, srgb.get(), TYPE_RGB_FLT,
      INTENT_RELATIVE_COLORIMETRIC, cmsFLAGS_NOCACHE | cmsFLAGS_BLACKPOINTCOMPENSATION);
  if (transform == nullptr) return false;
  cmsDeleteTransform(transform);
  return true;
}

std::string_view HdrTransferOf(std::span<const ColourChunk> chunks) {
  const std::string* const cicp = Find(chunks, "cICP");
  if (cicp == nullptr || cicp->size() != 4) return "";
  return (*cicp)[1] == 16 ? "PQ" : (*cicp)[1] == 18 ? "HLG" : "";
}

bool HasProfile(std::string_view cicp) {
  Colours colours = {kD65, kBt709};
  return ParseCicp(cicp, colours);
}

bool AreChromaticities(std::string_view chrm) {
  Colours colours = {kD65, kBt709};
  return ParseChromaticities(chrm, colours);
}

std::string ProfileOf(std::span<const ColourChunk> chunks, std::string_view icc_profile, bool gray,
                      std::vector<std::string>* unusable) {
  std::vector<std::string> none;
  if (unusable == nullptr) unusable = &none;
  Colours colours = {kD65, kBt709};
  const std::string* const cicp = Find(chunks, "cICP");
  if (cicp == nullptr || !ParseCicp(*cicp, colours)) {
    if (!icc_profile.empty()) return std::string(icc_profile);
    colours = ColoursOf(chunks, *unusable);
  }
  if (colours.is_srgb) return {};
  const Context context = MakeContext();
  std::string profile =
      context == nullptr ? "" : Serialize(MakeProfile(context.get(), colours, gray));
  if (profile.empty())
    for (const char* const type : {"cICP", "gAMA", "cHRM"})
      if (Find(chunks, type) != nullptr) unusable->emplace_back(type);
  return profile;
}

}  // namespace upscaled
