"""Images drawn by program: pages of text and geometric shapes. Deterministic in the given numpy generator."""

import math

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

_LATIN = ("the quick brown fox jumps over a lazy dog while seven wizards box with five dozen liquor jugs and nobody "
          "minds that images of words have thin strokes round bowls sharp serifs and small counters").split()
_WORDS = _LATIN + [w.capitalize() for w in _LATIN] + "I/O 2x & 50% (a) [3] {x} f(x)=y 'to' \"be\" #7 1984 0.25".split()
_CYRILLIC = "съешь же ещё этих мягких французских булок да выпей чаю Широкая электрификация".split()
_ALPHABETS_IN = ("DejaVu", "Liberation", "OpenSans", "LinLibertine_R")  # fonts that hold Cyrillic and Greek
_GREEK = "ξεσκεπάζω την ψυχοφθόρα βδελυγμία Θάλασσα ουρανός".split()


def _color(rng):
    if rng.random() < 0.25:
        v = int(rng.integers(0, 256))
        return (v, v, v)
    return tuple(int(v) for v in rng.integers(0, 256, 3))


def _contrasting(rng, background, least):
    for _ in range(50):
        c = _color(rng)
        if abs(sum(c) - sum(background)) >= 3 * least:
            return c
    return (0, 0, 0) if sum(background) > 384 else (255, 255, 255)


def _gradient(rng, size):
    """A smooth two-colour ramp in a random direction, `size` px square."""
    angle = rng.uniform(0, 2 * math.pi)
    y, x = np.mgrid[0:size, 0:size] / size
    t = x * math.cos(angle) + y * math.sin(angle)
    t = ((t - t.min()) / (t.max() - t.min()))[..., None]
    a, b = np.array(_color(rng)), np.array(_color(rng))
    return Image.fromarray(np.round(a + (b - a) * t).astype(np.uint8))


def _line(rng, font_path, cjk):
    if cjk:
        kana = "".join(chr(int(c)) for c in rng.integers(0x3041, 0x3094, 8))
        han = "".join(chr(int(c)) for c in rng.integers(0x4E00, 0x7F00, 24))
        return "".join(rng.permutation(list(kana + han)))
    words = _WORDS
    if rng.random() < 0.15 and any(name in font_path for name in _ALPHABETS_IN):
        words = _CYRILLIC if rng.random() < 0.6 else _GREEK
    text = " ".join(rng.choice(words, 14))
    return text.upper() if rng.random() < 0.1 else text


def text_page(rng, fonts, cjk_fonts, size, photo=None):
    """A square page of text in random fonts, sizes and colours; on `photo` (an Image) if one is given."""
    plain = rng.random() < 0.5
    background = ((255, 255, 255) if rng.random() < 0.7 else (0, 0, 0)) if plain else _color(rng)
    page = Image.new("RGB", (size, size), background)
    if photo is not None:
        page = photo.resize((size, size), Image.BICUBIC)
        background = tuple(int(v) for v in np.asarray(page).mean((0, 1)))
    elif not plain and rng.random() < 0.3:
        page = _gradient(rng, size)
        background = tuple(int(v) for v in np.asarray(page).mean((0, 1)))
    # A third of the pages are drawn larger and reduced: glyph edges then fall anywhere between the pixels, as in print.
    zoom = 3 if rng.random() < 0.35 else 1
    mask_size = size * zoom
    y = int(rng.integers(-10, 6)) * zoom
    while y < mask_size:
        cjk = rng.random() < 0.15
        px = int(round(math.exp(rng.uniform(math.log(9), math.log(44))))) * zoom
        font_path = str(rng.choice(cjk_fonts if cjk else fonts))
        font = ImageFont.truetype(font_path, px)
        color = background
        if plain and rng.random() < 0.7:
            color = (0, 0, 0) if sum(background) > 384 else (255, 255, 255)
        else:
            color = _contrasting(rng, background, 60)
        lines = int(rng.integers(1, 4))
        mask = Image.new("L", (mask_size, int(px * 1.4 * lines) + 2))
        draw = ImageDraw.Draw(mask)
        for i in range(lines):
            draw.text((int(rng.integers(-20, 12)) * zoom, int(px * 1.35 * i)), _line(rng, font_path, cjk), 255, font=font)
        if zoom > 1:
            mask = mask.resize((size, max(1, mask.height // zoom)), Image.BOX)
        page.paste(color, (0, y // zoom), mask)
        y += int(px * 1.35 * lines) + int(rng.integers(0, px))
    return page


def shapes(rng, size):
    """Overlapping antialiased shapes, lines, rings and ramps: flat art, charts and line drawings."""
    zoom = 4
    big = size * zoom
    image = Image.new("RGB", (big, big), _color(rng)) if rng.random() < 0.7 else _gradient(rng, size).resize((big, big))
    draw = ImageDraw.Draw(image)
    line_art = rng.random() < 0.4
    for _ in range(int(rng.integers(6, 40))):
        kind = rng.integers(0, 6)
        c = _color(rng)
        x, y = rng.uniform(-0.1, 1.1, 2) * big
        w, h = np.exp(rng.uniform(math.log(0.02), math.log(0.5), 2)) * big
        stroke = max(1, int(zoom * math.exp(rng.uniform(math.log(0.7), math.log(6)))))
        outline = dict(outline=c, width=stroke) if line_art or rng.random() < 0.3 else dict(fill=c)
        if kind == 0:
            draw.rectangle((x, y, x + w, y + h), **outline)
        elif kind == 1:
            draw.ellipse((x, y, x + w, y + h), **outline)
        elif kind == 2:
            points = [tuple(rng.uniform(-0.5, 0.5, 2) * (w, h) + (x, y)) for _ in range(int(rng.integers(3, 7)))]
            draw.polygon(points, fill=c)
        elif kind == 3:
            draw.line([tuple(rng.uniform(0, 1, 2) * big) for _ in range(int(rng.integers(2, 5)))], c, stroke)
        elif kind == 4:
            for i in range(int(rng.integers(3, 12))):
                draw.line((x, y + i * stroke * 3, x + w, y + h * 0.3 + i * stroke * 3), c, stroke)
        else:
            draw.arc((x, y, x + w, y + w), int(rng.integers(0, 360)), int(rng.integers(0, 720)), c, stroke)
    out = image.resize((size, size), Image.BOX)
    if rng.random() < 0.1:
        out = out.filter(ImageFilter.GaussianBlur(rng.uniform(0.4, 1.2)))
    return out


def _noise(rng, size, spectrum):
    """Gaussian noise filtered by `spectrum`, deviation 1."""
    noise = np.fft.ifft2(np.fft.fft2(rng.standard_normal((size, size))) * spectrum).real
    return noise / noise.std()


def _texture(rng, size):
    """Noise of a power spectrum 1 / f^a, sometimes stretched into fibres."""
    frequency = np.fft.fftfreq(size)
    y, x = np.meshgrid(frequency, frequency, indexing="ij")
    if rng.random() < 0.4:
        angle, stretch = rng.uniform(0, math.pi), rng.uniform(2, 8)
        x, y = (x * math.cos(angle) + y * math.sin(angle)) * stretch, -x * math.sin(angle) + y * math.cos(angle)
    return _noise(rng, size, (x * x + y * y + 1e-4) ** (-rng.uniform(0.5, 1.8) / 2))


def _smooth(rng, size, sigma_px):
    frequency = np.fft.fftfreq(size)
    return _noise(rng, size, np.exp(-2 * (math.pi * sigma_px) ** 2 * (frequency[:, None] ** 2 + frequency[None] ** 2)))


def _leaf(rng, x, y, radius):
    """A polygon's points: squeezed, turned, sometimes jagged."""
    corners, first, squeeze = int(rng.integers(3, 24)), rng.uniform(0, 2 * math.pi), rng.uniform(0.08, 1)
    turn, jag = rng.uniform(0, 2 * math.pi), rng.choice([0, 0, 0.2, 0.5])
    points = []
    for i in range(corners):
        angle, r = first + 2 * math.pi * i / corners, radius * (1 - jag * rng.random())
        along, across = r * math.cos(angle), r * squeeze * math.sin(angle)
        points.append((x + along * math.cos(turn) - across * math.sin(turn), y + along * math.sin(turn) + across * math.cos(turn)))
    return points


def leaves(rng, size, colors):
    """Leaves over leaves, of a photograph's colours (uint8 [n, 3]), with textures, soft light and sometimes out of focus in parts.

    Occlusion and sizes by a power law give what photographs have most of, edges of all scales (Lee, Mumford and Huang, "Occlusion
    Models for Natural Images"; networks that restore images learn from it: Achddou, Gousseau and Ladjal, "Synthetic Images as a
    Regularity Prior for Image Restoration Neural Networks").
    """
    zoom, textures = 3, 5
    big = size * zoom

    def color():
        return tuple(int(v) for v in colors[rng.integers(len(colors))])

    image, texture_of = Image.new("RGB", (big, big), color()), Image.new("L", (big, big), 0)
    draw, draw_texture = ImageDraw.Draw(image), ImageDraw.Draw(texture_of)
    low, high = rng.uniform(2, 5) * zoom / 2, rng.uniform(0.15, 0.6) * big
    count, discs, power = int(rng.uniform(300, 2000)), 0.2 + 0.4 * rng.random(), 1 - rng.uniform(1.6, 2.9)
    for _ in range(count):
        radius = (low**power + (high**power - low**power) * rng.random()) ** (1 / power)
        x, y = rng.uniform(-radius, big + radius), rng.uniform(-radius, big + radius)
        c, texture = color(), int(rng.integers(textures))
        if rng.random() < discs:
            box = (x - radius, y - radius, x + radius, y + radius)
            draw.ellipse(box, fill=c)
            draw_texture.ellipse(box, fill=texture)
        else:
            points = _leaf(rng, x, y, radius)
            draw.polygon(points, fill=c)
            draw_texture.polygon(points, fill=texture)
    if rng.random() < 0.7:
        image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0, 0.8) * zoom))
    out = np.asarray(image.resize((size, size), Image.BOX), np.float32)
    blocks = np.asarray(texture_of).reshape(size, zoom, size, zoom)
    for texture in range(textures):
        share = (blocks == texture).mean((1, 3), dtype=np.float32)
        strength = rng.choice([0, 1, 1, 2, 3]) * rng.uniform(1, 7)
        out = out + (share * strength * _texture(rng, size))[..., None] * rng.uniform(0.6, 1, 3)
    light = _smooth(rng, size, rng.uniform(15, 50))
    out = out * (1 + rng.uniform(0, 0.2) * light)[..., None]
    if rng.random() < 0.3:
        sharp = 1 / (1 + np.exp(-4 * light))[..., None]
        soft = Image.fromarray(np.clip(out, 0, 255).astype(np.uint8)).filter(ImageFilter.GaussianBlur(rng.uniform(1.5, 6)))
        out = out * sharp + np.asarray(soft) * (1 - sharp)
    return Image.fromarray(np.clip(np.rint(out), 0, 255).astype(np.uint8))


_BAYER = np.array([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]])


def _levels(rng, size):
    """The levels that a pattern shows: one level, a ramp or soft light, in 0..1."""
    kind = rng.integers(0, 3)
    if kind == 0:
        return np.full((size, size), rng.uniform(0.05, 0.95))
    if kind == 1:
        angle = rng.uniform(0, 2 * math.pi)
        y, x = np.mgrid[0:size, 0:size] / size
        t = x * math.cos(angle) + y * math.sin(angle)
        return (t - t.min()) / (t.max() - t.min())
    return np.clip(0.5 + 0.25 * _smooth(rng, size, rng.uniform(8, 40)), 0, 1)


def patterns(rng, size):
    """A dither, a checkerboard or a screen of dots over levels, in two colours, black and white in half of the cases.

    Each image holds one kind: checks of 1 to 4 px; Bayer's ordered dither of 4 px; random thresholds; a screen of dots, 3 to 9 px
    apart at any angle, with soft or hard edges.
    """
    y, x = np.mgrid[0:size, 0:size]
    kind = rng.integers(0, 4)
    if kind == 0:
        check = int(rng.integers(1, 5))
        ink = ((x // check + y // check) % 2).astype(np.float64)
        if rng.random() < 0.3:
            ink = np.where(_levels(rng, size) > 0.5, ink, rng.uniform(0, 1))
    elif kind == 1:
        pixel = int(rng.integers(1, 4))
        ink = _levels(rng, size) > (_BAYER[y // pixel % 4, x // pixel % 4] + 0.5) / 16
    elif kind == 2:
        ink = _levels(rng, size) > rng.random((size, size))
    else:
        angle, period = rng.uniform(0, math.pi / 2), rng.uniform(3, 9)
        u, v = x * math.cos(angle) + y * math.sin(angle), y * math.cos(angle) - x * math.sin(angle)
        dots = (np.cos(2 * math.pi * u / period) + np.cos(2 * math.pi * v / period)) / 4 + 0.5
        ink = np.clip((_levels(rng, size) - dots) * rng.choice([4, 8, 64]) + 0.5, 0, 1)
    dark, light = np.zeros(3), np.full(3, 255.0)
    if rng.random() < 0.5:
        dark, light = np.array(_color(rng), np.float64), np.array(_color(rng), np.float64)
    out = dark + (light - dark) * np.asarray(ink, np.float64)[..., None]
    return Image.fromarray(np.clip(np.rint(out), 0, 255).astype(np.uint8))
