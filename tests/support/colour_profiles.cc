#include "tests/support/colour_profiles.h"

#include <algorithm>
#include <cmath>

#include <lcms2.h>

namespace upscaled::test {
namespace {

struct Lab {
  double l, a, b;
};

Lab LabOfInks(double cyan, double magenta, double yellow, double key) {
  return {98 - 25 * cyan - 20 * magenta - 8 * yellow - 35 * key, 25 * (magenta - cyan),
          25 * (yellow - magenta)};
}

cmsInt32Number SampleInks(const cmsUInt16Number in[], cmsUInt16Number out[], void*) {
  const auto ink = [&](int i) { return in[i] / 65535.0; };
  const Lab lab = LabOfInks(ink(0), ink(1), ink(2), ink(3));
  const cmsCIELab value = {lab.l, lab.a, lab.b};
  cmsFloat2LabEncodedV2(out, &value);
  return TRUE;
}

double SrgbOfLight(double light) {
  light = std::clamp(light, 0.0, 1.0);
  return 255 * (light <= 0.0031308 ? 12.92 * light : 1.055 * std::pow(light, 1 / 2.4) - 0.055);
}

// Closes `profile`.
std::string Save(cmsHPROFILE profile) {
  cmsUInt32Number bytes = 0;
  cmsSaveProfileToMem(profile, nullptr, &bytes);
  std::string result(bytes, '\0');
  cmsSaveProfileToMem(profile, result.data(), &bytes);
  cmsCloseProfile(profile);
  return result;
}

}  // namespace

std::string CmykProfile() {
  cmsHPROFILE profile = cmsCreateProfilePlaceholder(nullptr);
  cmsSetProfileVersion(profile, 2.4);
  cmsSetDeviceClass(profile, cmsSigOutputClass);
  cmsSetColorSpace(profile, cmsSigCmykData);
  cmsSetPCS(profile, cmsSigLabData);
  cmsWriteTag(profile, cmsSigMediaWhitePointTag, cmsD50_XYZ());
  cmsPipeline* pipeline = cmsPipelineAlloc(nullptr, 4, 3);
  cmsStage* table = cmsStageAllocCLut16bit(nullptr, 5, 4, 3, nullptr);
  cmsStageSampleCLut16bit(table, SampleInks, nullptr, 0);
  cmsPipelineInsertStage(pipeline, cmsAT_END, table);
  for (const cmsTagSignature tag : {cmsSigAToB0Tag, cmsSigAToB1Tag})
    cmsWriteTag(profile, tag, pipeline);
  cmsPipelineFree(pipeline);
  return Save(profile);
}

std::string SrgbProfile() { return Save(cmsCreate_sRGBProfile()); }

std::array<double, 3> SrgbOfInks(double cyan, double magenta, double yellow, double key) {
  const Lab lab = LabOfInks(cyan, magenta, yellow, key);
  const double fy = (lab.l + 16) / 116, fx = fy + lab.a / 500, fz = fy - lab.b / 200;
  const auto light = [](double f) {
    return f > 6.0 / 29 ? f * f * f : 3 * 36.0 / 841 * (f - 4.0 / 29);
  };
  const double x = 0.9642 * light(fx), y = light(fy), z = 0.8249 * light(fz);
  // From XYZ under D50 to linear sRGB, by Bradford's adaptation.
  return {SrgbOfLight(3.1338561 * x - 1.6168667 * y - 0.4906146 * z),
          SrgbOfLight(-0.9787684 * x + 1.9161415 * y + 0.0334540 * z),
          SrgbOfLight(0.0719453 * x - 0.2289914 * y + 1.4052427 * z)};
}

ProfileSummary Summarize(const std::string& icc_profile) {
  ProfileSummary summary;
  cmsHPROFILE profile = cmsOpenProfileFromMem(icc_profile.data(), icc_profile.size());
  if (profile == nullptr) return summary;
  summary.gray = cmsGetColorSpace(profile) == cmsSigGrayData;
  const cmsTagSignature curve_tag = summary.gray ? cmsSigGrayTRCTag : cmsSigRedTRCTag;
  const auto* curve = static_cast<const cmsToneCurve*>(cmsReadTag(profile, curve_tag));
  for (int i = 0; i < 3 && curve != nullptr; ++i)
    summary.light[i] = cmsEvalToneCurveFloat(curve, 0.25F * (i + 1));
  const cmsTagSignature colorants[] = {cmsSigRedColorantTag, cmsSigGreenColorantTag,
                                       cmsSigBlueColorantTag};
  for (int i = 0; i < 3 && !summary.gray; ++i) {
    const auto* point = static_cast<const cmsCIEXYZ*>(cmsReadTag(profile, colorants[i]));
    if (point == nullptr) continue;
    const double sum = point->X + point->Y + point->Z;
    summary.primaries[2 * i] = point->X / sum;
    summary.primaries[2 * i + 1] = point->Y / sum;
  }
  cmsCloseProfile(profile);
  return summary;
}

}  // namespace upscaled::test
