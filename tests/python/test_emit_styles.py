"""Reference files are written in many ways: what a file needs of each is carried over as Python, whatever its layout."""

import inspect

import pytest
import torch
from emitted import namespace

from transfuse import emit, problem
from transfuse.emit.source import undefined

INPUTS = """

def get_init_inputs():
    return [3]


def get_inputs():
    return [torch.randn(2, 3, 8, 8)]
"""
STYLES = {
    "bodies beside their heads": """import torch
from torch import nn
class Model(nn.Module):
    def __init__(self,c): super().__init__(); self.up=nn.ConvTranspose2d(c,4,3,2)
    def forward(self,x): return self.up(x).relu().mean((2,3))
""",
    "tabs": """import torch
from torch import nn
class Model(nn.Module):
	def __init__(self,c):
		super().__init__()
		self.up=nn.ConvTranspose2d(c,4,3,2)
	def forward(self,x):
		return self.up(x).relu().mean((2,3))
""",
    "two spaces": """import torch
from torch import nn
class Model(nn.Module):
  def __init__(self,c):
    super().__init__()
    self.up=nn.ConvTranspose2d(c,4,3,2)
  def forward(self,x):
    return self.up(x).relu().mean((2,3))
""",
    "decorators": """import torch
from torch import nn
class Model(nn.Module):
    def __init__(self,c):
        super().__init__()
        self.up=self.make(c)
    @staticmethod
    def make(c):
        return nn.ConvTranspose2d(c,4,3,2)
    @property
    def scale(self): return 2.0
    @torch.no_grad()
    def reset(self): pass
    def forward(self,x):
        return self.up(x).relu().mean((2,3))*self.scale
""",
    "annotations": """import torch
from torch import nn, Tensor
from typing import Optional
class Model(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.up=nn.ConvTranspose2d(c,4,3,2)
    def forward(self, x: Tensor, s: Optional[Tensor] = None) -> Tensor:
        y = self.up(x).relu()
        return y.mean((2,3)) if s is None else y
""",
    "annotations that are not evaluated": """from __future__ import annotations
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self, c: int | None) -> None:
        super().__init__()
        self.up=nn.ConvTranspose2d(c,4,3,2)
    def forward(self, x: torch.Tensor) -> Something:
        return self.up(x).relu().mean((2,3))
""",
    "a base class": """import torch
from torch import nn
class Base(nn.Module):
    def __init__(self,k):
        super().__init__()
        self.k=k
    def act(self,x): return x.relu()
class Model(Base):
    def __init__(self,c):
        super().__init__(4)
        self.up=nn.ConvTranspose2d(c,self.k,3,2)
    def forward(self,x):
        return self.act(self.up(x)).mean((2,3))
""",
    "attributes of the class": """import torch
from torch import nn
class Model(nn.Module):
    width = 4
    stride: int = 2
    def __init__(self,c):
        super().__init__()
        self.up=nn.ConvTranspose2d(c,self.width,3,Model.stride)
    def forward(self,x):
        return self.up(x).relu().mean((2,3))
""",
    "constants of every kind": """import torch
import torch.nn as nn
import math
K: int = 3
A, B = 4, 2
W = math.floor(4.5)
if True:
    D = 1
class Model(nn.Module):
    def __init__(self,c):
        super().__init__()
        self.up=nn.ConvTranspose2d(c,A,K,B,dilation=D)
    def forward(self,x):
        return self.up(x).relu().mean((2,3))
""",
    "docstrings and strings over lines": """import torch
import torch.nn as nn
def block(i,o,*,k=3):
    '''doc'''
    return nn.Sequential(nn.ConvTranspose2d(i,o,k,2),nn.ReLU())
class Block(nn.Module):
    '''doc'''
    def __init__(self,i,o): super().__init__(); self.b=block(i,o)
    def forward(self,x): return self.b(x)
class Model(nn.Module):
    '''A model.

    With a docstring that says "quotes" and (brackets.
    '''
    def __init__(self,c):
        '''
        Constructor.
        '''
        super(Model,self).__init__()
        self.up=Block(c,4)
        self.text = '''
  odd indentation
'''
    def forward(self,x):
        '''does it'''
        return self.up(x).mean((2,3))
""",
    "other names for torch": """import torch as T
import torch
import torch.nn as L
from torch.nn import Module, ConvTranspose2d as Up
import torch.nn.functional as Fn
class Model(Module):
    def __init__(self,c):
        super().__init__()
        self.up=Up(c,4,3,2)
        self.act=L.ReLU()
        self.f=Fn.relu
    def forward(self,x):
        return self.act(self.up(x)).mean((2,3))
""",
    "no constructor": """import torch
from torch import nn
class Model(nn.Sequential):
    def forward(self,x):
        return super().forward(x).mean((2,3))
def get_init_inputs(): return [nn.ConvTranspose2d(3,4,3,2), nn.ReLU()]
def get_inputs(): return [torch.randn(2,3,8,8)]
""",
    "keywords": """import torch
from torch import nn
class Model(nn.Module):
    def __init__(self, c, *, width=4, **rest):
        super().__init__()
        self.up=nn.ConvTranspose2d(c,width,3,2)
        self.register_buffer("m", torch.ones(4))
    def forward(self,x):
        return (self.up(x).relu()*self.m.view(1,4,1,1)).mean((2,3))
def get_init_inputs(): return {"c":3,"width":4}
def get_inputs(): return [torch.randn(2,3,8,8)]
""",
    "comments": """# -*- coding: utf-8 -*-
import torch
from torch import nn  # the layers
make = lambda c: nn.ConvTranspose2d(c, 4, 3, 2)  # ümlaut
class Model(nn.Module):
    # a comment
    def __init__(self,c):
        # first
        super().__init__()  # (unbalanced
        self.up = make(
            c,   # channels
        )
        if c > 2: self.act = nn.ReLU()
        else: self.act = nn.Tanh()
    def forward(self,x):
        return self.act(self.up(x)).mean((2,3))
""",
    "a class in the class": """import torch
from torch import nn
class Model(nn.Module):
    class Config:
        width = 4
    def __init__(self,c):
        super().__init__()
        self.up=nn.ConvTranspose2d(c,self.Config.width,3,2)
    def forward(self,x):
        return self.up(x).relu().mean((2,3))
""",
    "a dataclass": """import torch
from torch import nn
from dataclasses import dataclass
@dataclass
class Config:
    width: int = 4
class Model(nn.Module):
    def __init__(self,c):
        super().__init__()
        cfg=Config()
        self.up=nn.ConvTranspose2d(c,cfg.width,3,2)
    def forward(self,x):
        return self.up(x).relu().mean((2,3))
""",
}


@pytest.mark.parametrize("style", STYLES)
def test_a_file_in_this_style(style, tmp_path):
    path = tmp_path / "reference.py"
    text = STYLES[style]
    path.write_text(text if "def get_inputs" in text else text + INPUTS)
    found = problem.load(path)
    made = namespace(emit.emit(path))["ModelNew"]
    given = found.module.get_init_inputs()
    torch.manual_seed(0)
    model = made(**given) if isinstance(given, dict) else made(*given)
    reference = found.model(0)
    assert list(model.state_dict()) == list(reference.state_dict())
    if not any(isinstance(value, torch.nn.Module) for value in given):  # which are made anew each time
        for ours, theirs in zip(model.state_dict().values(), reference.state_dict().values()):
            assert torch.equal(ours, theirs)
    assert list(inspect.signature(model.forward).parameters) == list(inspect.signature(reference.forward).parameters)


def test_names_that_nothing_binds_are_found():
    assert undefined("import a\ndef f(x, *y):\n    return [a.b(z) for z in x] + len(y) + w") == ["w"]
    assert undefined("from a import *\nb()") == []
