"""A DCGAN and a U-Net trained by ours and by PyTorch with the same seeds, on data made here: losses of every step, as JSON and (where
matplotlib is installed) as one picture.

    PYTHONPATH=python python bench/training_curves.py [--steps 500] [--json curves.json] [--picture curves.png]

Rounding differs, so the curves of a GAN part after some hundred steps, as those of two PyTorch runs do whose rounding differs. A third
run, PyTorch in channels last, shows how far.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import transfuse

WIDTH = 32


def generator():
    def up(inner, outer, stride, padding):
        return [nn.ConvTranspose2d(inner, outer, 4, stride, padding, bias=False), nn.BatchNorm2d(outer), nn.ReLU()]

    return nn.Sequential(
        *up(64, 4 * WIDTH, 1, 0),
        *up(4 * WIDTH, 2 * WIDTH, 2, 1),
        *up(2 * WIDTH, WIDTH, 2, 1),
        nn.ConvTranspose2d(WIDTH, 1, 4, 2, 1),
        nn.Tanh(),
    )


def critic():
    def down(inner, outer):
        return [nn.Conv2d(inner, outer, 4, 2, 1, bias=False), nn.BatchNorm2d(outer), nn.LeakyReLU(0.2)]

    return nn.Sequential(
        nn.Conv2d(1, WIDTH, 4, 2, 1),
        nn.LeakyReLU(0.2),
        *down(WIDTH, 2 * WIDTH),
        *down(2 * WIDTH, 4 * WIDTH),
        nn.Conv2d(4 * WIDTH, 1, 4),
    )


class UNet(nn.Module):
    def __init__(self, width=WIDTH, levels=3):
        super().__init__()

        def block(inner, outer):
            layers = []
            for i in (inner, outer):
                layers += [nn.Conv2d(i, outer, 3, padding=1, bias=False), nn.BatchNorm2d(outer), nn.ReLU()]
            return nn.Sequential(*layers)

        widths = [width << i for i in range(levels)]
        self.down = nn.ModuleList([block(i, o) for i, o in zip([1, *widths], widths)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[-2::-1]])
        self.blocks = nn.ModuleList([block(2 * w, w) for w in widths[-2::-1]])
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        skips = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if i else x)
            skips.append(x)
        for up, block, skip in zip(self.up, self.blocks, skips[-2::-1]):
            x = block(torch.cat([skip, up(x)], 1))
        return self.head(x)


def discs(count, size, numbers):
    """Images of a few discs each, and which of their pixels are inside one."""
    place = torch.linspace(-1, 1, size)
    centre, radius = (
        1.6 * torch.rand(count, 3, 2, generator=numbers) - 0.8,
        0.15 + 0.25 * torch.rand(count, 3, generator=numbers),
    )
    far = (place[:, None] - centre[..., 0, None, None]).square() + (place - centre[..., 1, None, None]).square()
    inside = (far < radius[..., None, None].square()).any(1, keepdim=True).float()
    return inside


def dcgan(steps, device, prepared):
    torch.manual_seed(0)
    makes, judges = generator().to(device), critic().to(device)
    makes, judges = prepared(makes, torch.randn(64, 64, 1, 1)), prepared(judges, torch.randn(64, 1, 32, 32))
    learn = [torch.optim.Adam(m.parameters(), lr=2e-4, betas=(0.5, 0.999)) for m in (makes, judges)]
    numbers, losses = torch.Generator().manual_seed(1), []
    for _ in range(steps):
        real = (2 * discs(64, 32, numbers) - 1).to(device)
        z = torch.randn(64, 64, 1, 1, generator=numbers).to(device)
        fake = makes(z)
        worth = F.softplus(-judges(real)).mean() + F.softplus(judges(fake.detach())).mean()
        learn[1].zero_grad()
        worth.backward()
        learn[1].step()
        fooled = F.softplus(-judges(fake)).mean()
        learn[0].zero_grad()
        fooled.backward()
        learn[0].step()
        losses.append(torch.stack([worth.detach(), fooled.detach()]))
    return torch.stack(losses).tolist()


def unet(steps, device, prepared):
    torch.manual_seed(0)
    model = prepared(UNet().to(device), torch.randn(16, 1, 64, 64))
    learn = torch.optim.AdamW(model.parameters(), lr=1e-3)
    numbers, losses = torch.Generator().manual_seed(1), []
    for _ in range(steps):
        inside = discs(16, 64, numbers)
        x = (inside + torch.randn(inside.shape, generator=numbers)).to(device)
        loss = F.binary_cross_entropy_with_logits(model(x), inside.to(device))
        learn.zero_grad()
        loss.backward()
        learn.step()
        losses.append(loss.detach())
    return torch.stack(losses)[:, None].tolist()


def optimized(model, example):
    return transfuse.optimize(model, (example.to(next(model.parameters()).device),), never_slower=False)


RUNS = {
    "ours": optimized,
    "PyTorch": lambda model, example: model,
    "PyTorch, channels last": lambda model, example: model.to(memory_format=torch.channels_last),
}
NAMES = {"dcgan": ["critic", "generator"], "unet": ["cross entropy"]}


def picture(found, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    _, axes = pyplot.subplots(1, 3, figsize=(15, 4))
    places = iter(axes)
    for network, names in NAMES.items():
        for column, name in enumerate(names):
            at = next(places)
            at.set(title=f"{network}: {name}", xlabel="step", ylabel="loss")
            for run, style in zip(RUNS, ("-", "--", ":")):
                at.plot([step[column] for step in found[network][run]["losses"]], style, label=run, linewidth=1)
            at.legend()
    pyplot.tight_layout()
    pyplot.savefig(path, dpi=120)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=500)
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--json", type=Path)
    p.add_argument("--picture", type=Path)
    options = p.parse_args()
    found = {}
    for network, train in (("dcgan", dcgan), ("unet", unet)):
        found[network] = {}
        for run, prepared in RUNS.items():
            begin = time.perf_counter()
            losses = train(options.steps, options.device, prepared)
            taken = time.perf_counter() - begin
            found[network][run] = {"seconds": taken, "losses": losses}
            shown = "  ".join(
                f"{step}: " + ", ".join(f"{v:.4f}" for v in losses[step])
                for step in sorted({0, 9, 99, options.steps - 1})
                if step < len(losses)
            )
            print(f"{network:6} {run:24} {taken:6.1f} s   {shown}", flush=True)
        if options.json:
            options.json.write_text(json.dumps({"steps": options.steps, "device": options.device, **found}))
    if options.picture:
        picture(found, options.picture)


main()
