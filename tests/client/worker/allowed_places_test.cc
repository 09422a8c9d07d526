#include "client/worker/allowed_places.h"

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/fetch/url_prefix.h"
#include "tests/client/temp_folder.h"

namespace upscaled::client {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::vector<server::UrlPrefix> Prefixes(const std::vector<std::string>& texts) {
  return *server::ParseUrlPrefixes(texts);
}

class AllowedPathsTest : public ::testing::Test {
 protected:
  AllowedPathsTest() {
    fs::create_directories(Path("in/deep"));
    fs::create_directories(Path("in-other"));
    fs::create_directories(Path("out"));
    WriteText(Path("in/a"), "a");
    WriteText(Path("out/secret"), "secret");
    fs::create_symlink(Path("out/secret"), Path("in/link"));
    fs::create_directory_symlink(Path("out"), Path("in/folder"));
    fs::create_symlink(Path("in/a"), Path("in/good"));
  }
  std::string Path(const std::string& name) const { return folder_ / name; }
  bool Allows(const std::string& path) const {
    const auto real = allowed_.Resolve(path);
    EXPECT_TRUE(real.ok() || absl::IsPermissionDenied(real.status())) << real.status();
    return real.ok();
  }

  TempFolder folder_;
  AllowedPlaces allowed_{.folders = {{Path("in")}}};
};

TEST_F(AllowedPathsTest, AreBelowAFolderOfTheList) {
  EXPECT_TRUE(Allows(Path("in/a")));
  EXPECT_TRUE(Allows(Path("in/deep/not/yet/there.png")));
  EXPECT_TRUE(Allows(Path("in/deep/../a")));
  EXPECT_FALSE(Allows(Path("out/secret")));
  EXPECT_FALSE(Allows(Path("in-other/a")));
  EXPECT_FALSE(Allows(Path("in/../out/secret")));
  EXPECT_FALSE(Allows(Path("in/none/../../out/secret")));
  EXPECT_FALSE(Allows("/etc/passwd"));
}

TEST_F(AllowedPathsTest, AreWhereTheirLinksLead) {
  EXPECT_FALSE(Allows(Path("in/link")));
  EXPECT_FALSE(Allows(Path("in/folder/secret")));
  EXPECT_FALSE(Allows(Path("in/folder/new")));
  EXPECT_EQ(*allowed_.Resolve(Path("in/good")), fs::canonical(Path("in/a")));
}

TEST_F(AllowedPathsTest, TheListsOwnLinksAndSlashesAreFollowed) {
  fs::create_directory_symlink(Path("in"), Path("alias"));
  allowed_.folders = {{Path("alias/")}};
  EXPECT_TRUE(Allows(Path("in/a")));
  EXPECT_TRUE(Allows(Path("alias/a")));
  allowed_.folders = {{"/"}};
  EXPECT_TRUE(Allows(Path("out/secret")));
}

TEST_F(AllowedPathsTest, RefusalsNameThePlaceAndTheFlag) {
  const std::string message(allowed_.Resolve("/etc/passwd").status().message());
  EXPECT_THAT(message, HasSubstr("/etc/passwd"));
  EXPECT_THAT(message, HasSubstr("--allow-paths"));
}

TEST_F(AllowedPathsTest, WithoutAListAllAreAllowed) {
  allowed_.folders.reset();
  EXPECT_TRUE(Allows("/etc/passwd"));
  allowed_.folders.emplace();
  EXPECT_FALSE(Allows(Path("in/a")));
}

TEST(AllowedBucketsTest, AreThoseOfTheList) {
  AllowedPlaces allowed;
  EXPECT_TRUE(allowed.CheckBucket("s3://any/key").ok());
  allowed.buckets = {"ours", "theirs"};
  EXPECT_TRUE(allowed.CheckBucket("s3://ours/key").ok());
  EXPECT_TRUE(allowed.CheckBucket("s3://theirs/a/b").ok());
  for (const char* place : {"s3://our/key", "s3://ourss/key", "s3://", "s3:///ours/key"}) {
    EXPECT_TRUE(absl::IsPermissionDenied(allowed.CheckBucket(place))) << place;
  }
}

TEST(AllowedUrlsTest, BeginLikeOneOfTheList) {
  AllowedPlaces allowed;
  EXPECT_FALSE(*allowed.MayBePrivate("http://images.example.com/a"));
  allowed.urls = Prefixes({"https://images.example.com/public"});
  allowed.private_urls = Prefixes({"http://10.0.0.7/hooks"});
  EXPECT_FALSE(*allowed.MayBePrivate("https://images.example.com/public/a?signature=1"));
  EXPECT_FALSE(*allowed.MayBePrivate("https://me:word@images.example.com/public/a"));
  EXPECT_TRUE(*allowed.MayBePrivate("http://10.0.0.7/hooks/ended"));
  for (const char* url :
       {"http://images.example.com/public/a", "https://images.example.com/publicity",
        "https://images.example.com/public/../secret", "https://images.example.com.evil.org/public",
        "https://images.example.com@evil.org/public", "http://10.0.0.7/",
        "http://10.0.0.7:81/hooks", "https://2130706433/", "not a URL"}) {
    const auto answer = allowed.MayBePrivate(url);
    EXPECT_TRUE(absl::IsPermissionDenied(answer.status())) << url;
  }
}

TEST(AllowedUrlsTest, RefusalsHideSecrets) {
  AllowedPlaces allowed;
  allowed.urls = Prefixes({"https://images.example.com"});
  const auto refused = allowed.MayBePrivate("https://me:word@evil.org/a?signature=hidden");
  EXPECT_EQ(refused.status().message(),
            "https://evil.org/a begins like no URL of this worker's --allow-urls");
}

}  // namespace
}  // namespace upscaled::client
