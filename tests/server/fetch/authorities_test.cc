#include "server/fetch/authorities.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/temp_folder.h"
#include "tests/support/certificates.h"

namespace upscaled::server {
namespace {

using testing::HasSubstr;

TEST(AuthoritiesTest, AreReadOnceUntilTheirFileChanges) {
  const client::TempFolder folder;
  if (!test::MakeCertificate(folder.path(), "a", "a.example") ||
      !test::MakeCertificate(folder.path(), "b", "b.example")) {
    GTEST_SKIP() << "no openssl command";
  }
  const std::filesystem::path file = folder.path() / "ca.pem";
  std::filesystem::copy(folder.path() / "a.pem", file);
  Authorities authorities(file);
  const absl::StatusOr<Authorities::Store> first = authorities.Get();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*authorities.Get(), *first);
  std::filesystem::rename(folder.path() / "b.pem", file);
  const absl::StatusOr<Authorities::Store> second = authorities.Get();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE(*second, *first);
  std::ofstream(file) << "no certificate";
  EXPECT_EQ(*authorities.Get(), *second) << "what cannot be read leaves what was";
  std::filesystem::remove(file);
  EXPECT_EQ(*authorities.Get(), *second);
}

TEST(AuthoritiesTest, TellWhatCannotBeRead) {
  const client::TempFolder folder;
  const std::filesystem::path file = folder.path() / "ca.pem";
  Authorities authorities(file);
  EXPECT_THAT(std::string(authorities.Get().status().message()), HasSubstr("ca.pem"));
  if (!test::MakeCertificate(folder.path(), "ca", "a.example")) GTEST_SKIP() << "no openssl";
  EXPECT_TRUE(authorities.Get().ok()) << "it is tried again";
}

TEST(AuthoritiesTest, AreTheSystemsUnlessToldOtherwise) {
  if (!std::filesystem::exists("/etc/ssl/certs")) GTEST_SKIP() << "not where they are looked for";
  Authorities authorities("");
  EXPECT_TRUE(authorities.Get().ok()) << authorities.Get().status();
}

}  // namespace
}  // namespace upscaled::server
