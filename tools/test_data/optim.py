"""Optimisers, learning-rate schedules and clipping, run by torch.optim in float64."""
import contextlib
import json
import warnings

import torch

from .files import save_safetensors

STEPS = 12
RECORDED = (1, 2, 5, 12)

# Names are the tests' too (tests/optim): case -> (class, options).
CASES = {
    "sgd": ("SGD", dict(lr=0.1)),
    "sgd_decay": ("SGD", dict(lr=0.1, weight_decay=0.3)),
    "sgd_momentum": ("SGD", dict(lr=0.1, momentum=0.9, dampening=0.25, weight_decay=0.1)),
    "sgd_nesterov": ("SGD", dict(lr=0.1, momentum=0.8, nesterov=True)),
    "sgd_maximize": ("SGD", dict(lr=0.1, momentum=0.5, maximize=True)),
    "adam": ("Adam", dict(lr=0.05)),
    "adam_options": ("Adam", dict(lr=0.05, betas=(0.4, 0.9), eps=1e-3, weight_decay=0.2, amsgrad=True)),
    "adamw": ("AdamW", dict(lr=0.05)),
    "adamw_options": ("AdamW", dict(lr=0.05, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.3, amsgrad=True, maximize=True)),
    "rmsprop": ("RMSprop", dict(lr=0.05)),
    "rmsprop_centered": ("RMSprop", dict(lr=0.05, alpha=0.9, eps=1e-4, weight_decay=0.1, momentum=0.7, centered=True)),
    "adagrad": ("Adagrad", dict(lr=0.1)),
    "adagrad_options": ("Adagrad", dict(lr=0.1, lr_decay=0.2, weight_decay=0.1, initial_accumulator_value=0.3, eps=1e-4)),
    "adafactor": ("Adafactor", dict(lr=0.1)),
    "adafactor_options": ("Adafactor", dict(lr=0.05, beta2_decay=-0.5, eps=(1e-4, 1e-2), d=1.5, weight_decay=0.1)),
    "lion": ("Lion", dict(lr=0.01)),
    "lion_options": ("Lion", dict(lr=0.01, betas=(0.7, 0.8), weight_decay=0.3)),
}
# Written behind everything else, so that the entries before them keep their places.
LATER_CASES = {
    "nadam": ("NAdam", dict(lr=0.05)),
    "nadam_options": ("NAdam", dict(lr=0.05, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.3, momentum_decay=0.2,
                                    decoupled_weight_decay=True, maximize=True)),
    "radam": ("RAdam", dict(lr=0.05)),
    "radam_options": ("RAdam", dict(lr=0.05, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.3,
                                    decoupled_weight_decay=True, maximize=True)),
}
LBFGS_STEPS = 3
LBFGS_CASES = {
    "lbfgs": dict(lr=0.2, max_iter=5),
    "lbfgs_wolfe": dict(line_search_fn="strong_wolfe", max_iter=7, history_size=3),
    "lbfgs_options": dict(lr=0.3, max_iter=8, max_eval=5, history_size=2, maximize=True),
    "lbfgs_tolerances": dict(line_search_fn="strong_wolfe", max_iter=60, tolerance_grad=0.2, tolerance_change=1e-3),
}
# Parameters: a matrix, a vector, and a kernel of four dimensions.
SHAPES = {"a": (3, 5), "b": (4,), "c": (2, 3, 2, 2)}
# Steps in which b has no gradient, in the cases that are called <case>_skipping.
SKIPPED = (3, 4, 8)
SKIPPING = ("sgd_momentum", "adam", "adagrad_options")

SCHEDULES = {
    "step": ("StepLR", dict(step_size=3, gamma=0.5)),
    "multi_step": ("MultiStepLR", dict(milestones=[2, 5, 5, 9], gamma=0.3)),
    "exponential": ("ExponentialLR", dict(gamma=0.9)),
    "constant": ("ConstantLR", dict(factor=0.25, total_iters=4)),
    "linear": ("LinearLR", dict(start_factor=0.2, end_factor=0.9, total_iters=6)),
    "polynomial": ("PolynomialLR", dict(total_iters=8, power=2.0)),
    "cosine": ("CosineAnnealingLR", dict(T_max=10, eta_min=0.01)),
    "cosine_restarts": ("CosineAnnealingWarmRestarts", dict(T_0=3, T_mult=2, eta_min=0.01)),
    "one_cycle": ("OneCycleLR", dict(max_lr=0.5, total_steps=25)),
    "one_cycle_linear": ("OneCycleLR", dict(max_lr=0.5, total_steps=25, pct_start=0.4, anneal_strategy="linear",
                                            div_factor=10, final_div_factor=100, three_phase=True,
                                            base_momentum=0.7, max_momentum=0.9)),
}
SCHEDULE_STEPS = 24
PLATEAU = dict(factor=0.5, patience=2, threshold=1e-2, cooldown=1, min_lr=0.02, eps=1e-6)


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of "Symbolic Discovery of Optimization Algorithms", line by line: torch has none."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for theta in group["params"]:
                g = theta.grad
                m = self.state[theta].setdefault("m", torch.zeros_like(theta))
                c = beta1 * m + (1 - beta1) * g
                theta -= group["lr"] * (torch.sign(c) + group["weight_decay"] * theta)
                self.state[theta]["m"] = beta2 * m + (1 - beta2) * g


def start(generator):
    return {name: torch.randn(shape, generator=generator).double() for name, shape in SHAPES.items()}


@contextlib.contextmanager
def doubles():
    """NAdam keeps the product of its momenta in the default dtype: in float32 it would be rounded."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def train(tensors, cls, options, skipping):
    parameters = {name: tensors[f"start.{name}"].clone().requires_grad_() for name in SHAPES}
    optimizer = (Lion if cls == "Lion" else getattr(torch.optim, cls))(parameters.values(), **options)
    for step in range(1, STEPS + 1):
        for name, parameter in parameters.items():
            skipped = skipping and name == "b" and step in SKIPPED
            parameter.grad = None if skipped else tensors[f"grad.{step}.{name}"].clone()
        with doubles():
            optimizer.step()
        if step in RECORDED:
            yield step, parameters


def valley(parameters):
    """A chain of Rosenbrock's valleys, not steep."""
    x = torch.cat([p.flatten() for p in parameters.values()])
    return 2 * ((x[1:] - x[:-1] ** 2) ** 2).sum() + ((1 - x) ** 2).sum()


def lbfgs(tensors, case, options):
    parameters = {name: tensors[f"start.{name}"].clone().requires_grad_() for name in SHAPES}
    optimizer = torch.optim.LBFGS(parameters.values(), **options)

    def closure():
        optimizer.zero_grad()
        loss = -valley(parameters) if options.get("maximize") else valley(parameters)
        loss.backward()
        return loss

    losses, evaluations = [], []
    for step in range(1, LBFGS_STEPS + 1):
        losses.append(optimizer.step(closure).item())
        evaluations.append(optimizer.state[parameters["a"]]["func_evals"])
        for name, parameter in parameters.items():
            tensors[f"{case}.{step}.{name}"] = parameter.detach().clone()
    tensors[f"{case}.losses"] = torch.tensor(losses, dtype=torch.float64)
    tensors[f"{case}.evaluations"] = torch.tensor(evaluations)


def rates(make):
    parameter = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
    schedule = make(optimizer)
    lr, momentum = [], []
    for _ in range(SCHEDULE_STEPS):
        lr.append(optimizer.param_groups[0]["lr"])
        momentum.append(optimizer.param_groups[0]["momentum"])
        optimizer.step()
        schedule.step()
    return torch.tensor(lr, dtype=torch.float64), torch.tensor(momentum, dtype=torch.float64)


def warmup_cosine(optimizer):
    lr = torch.optim.lr_scheduler
    return lr.SequentialLR(optimizer, [lr.LinearLR(optimizer, start_factor=0.1, total_iters=5),
                                       lr.CosineAnnealingLR(optimizer, T_max=15),
                                       lr.ConstantLR(optimizer, factor=0.5, total_iters=2)], milestones=[5, 20])


def plateau(mode, threshold_mode, metrics):
    parameter = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode=mode, threshold_mode=threshold_mode, **PLATEAU)
    lr = []
    for metric in metrics.tolist():
        schedule.step(metric)
        lr.append(optimizer.param_groups[0]["lr"])
    return torch.tensor(lr, dtype=torch.float64)


def clipped(tensors, **options):
    parameters = {name: tensors[f"start.{name}"].clone().requires_grad_() for name in SHAPES}
    for name, parameter in parameters.items():
        parameter.grad = tensors[f"grad.1.{name}"].clone()
    norm = torch.nn.utils.clip_grad_norm_(parameters.values(), **options)
    return norm, parameters


def write(out):
    warnings.simplefilter("ignore")
    generator = torch.Generator().manual_seed(20)
    tensors = {f"start.{name}": value for name, value in start(generator).items()}
    for step in range(1, STEPS + 1):
        for name, value in start(generator).items():
            tensors[f"grad.{step}.{name}"] = value
    for case, (cls, options) in CASES.items():
        for suffix in ("", "_skipping"):
            if suffix and case not in SKIPPING:
                continue
            for step, parameters in train(tensors, cls, options, bool(suffix)):
                for name, parameter in parameters.items():
                    tensors[f"{case}{suffix}.{step}.{name}"] = parameter.detach().clone()
    for case, (cls, options) in SCHEDULES.items():
        lr, momentum = rates(lambda optimizer: getattr(torch.optim.lr_scheduler, cls)(optimizer, **options))
        tensors[f"lr.{case}"] = lr
        if cls == "OneCycleLR":
            tensors[f"momentum.{case}"] = momentum
    tensors["lr.warmup_cosine"] = rates(warmup_cosine)[0]
    metrics = torch.rand(SCHEDULE_STEPS, generator=generator).double() / torch.arange(1, SCHEDULE_STEPS + 1).clamp(max=6)
    tensors["plateau.metrics"] = metrics
    for mode in ("min", "max"):
        for threshold_mode in ("rel", "abs"):
            tensors[f"plateau.{mode}.{threshold_mode}"] = plateau(mode, threshold_mode, metrics)
    for case, options in {"2": dict(max_norm=1.5), "1": dict(max_norm=2.0, norm_type=1.0),
                          "3": dict(max_norm=0.5, norm_type=3.0), "inf": dict(max_norm=0.5, norm_type=float("inf")),
                          "large": dict(max_norm=1e3)}.items():
        norm, parameters = clipped(tensors, **options)
        tensors[f"clip.{case}.norm"] = norm
        for name, parameter in parameters.items():
            tensors[f"clip.{case}.{name}"] = parameter.grad
    for case, (cls, options) in LATER_CASES.items():
        for step, parameters in train(tensors, cls, options, False):
            for name, parameter in parameters.items():
                tensors[f"{case}.{step}.{name}"] = parameter.detach().clone()
    for case, options in LBFGS_CASES.items():
        lbfgs(tensors, case, options)
    save_safetensors(out / "optim.safetensors", tensors, {
        "names": "start.<parameter>, grad.<step>.<parameter>, <case>.<step>.<parameter>: values after that step; "
                 "lr.<schedule>, momentum.<schedule>: before each step; plateau.<mode>.<threshold mode>: lr after each "
                 "metric; clip.<norm>.norm and gradients after clipping those of step 1; <lbfgs case>.losses: before each step, "
                 "<lbfgs case>.evaluations: up to and with each step",
        "cases": json.dumps(CASES | LATER_CASES | LBFGS_CASES), "schedules": json.dumps(SCHEDULES), "plateau": json.dumps(PLATEAU),
        "source": "torch.optim"})
