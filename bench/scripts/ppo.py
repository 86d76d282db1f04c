"""Trains an agent by PPO in a vectorised environment that lives on the device."""

import argparse
import random
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions.normal import Normal


@dataclass
class Args:
    seed: int = 1
    num_envs: int = 256
    num_steps: int = 8
    observations: int = 64
    actions: int = 8
    update_epochs: int = 2
    num_minibatches: int = 4
    learning_rate: float = 3e-4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_coef: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    iterations: int = 3


def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Environment:
    """A linear system with noise, of which an episode ends at random."""

    def __init__(self, args, device):
        self.args, self.device = args, device
        self.dynamics = torch.randn(args.observations, args.observations, device=device) * 0.05
        self.control = torch.randn(args.actions, args.observations, device=device) * 0.1

    def reset(self):
        self.state = torch.randn(self.args.num_envs, self.args.observations, device=self.device)
        return self.state

    def step(self, action):
        self.state = torch.tanh(self.state @ self.dynamics + action @ self.control)
        reward = -self.state.square().mean(-1)
        done = torch.rand(self.args.num_envs, device=self.device) < 0.01
        self.state = torch.where(done[:, None], torch.randn_like(self.state), self.state)
        return self.state, reward, done


class Agent(nn.Module):
    def __init__(self, args):
        super().__init__()
        width = 256
        self.critic = nn.Sequential(
            layer_init(nn.Linear(args.observations, width)),
            nn.Tanh(),
            layer_init(nn.Linear(width, width)),
            nn.Tanh(),
            layer_init(nn.Linear(width, 1), std=1.0),
        )
        self.actor_mean = nn.Sequential(
            layer_init(nn.Linear(args.observations, width)),
            nn.Tanh(),
            layer_init(nn.Linear(width, width)),
            nn.Tanh(),
            layer_init(nn.Linear(width, args.actions), std=0.01),
        )
        self.actor_logstd = nn.Parameter(torch.zeros(1, args.actions))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        action_mean = self.actor_mean(x)
        action_std = torch.exp(self.actor_logstd.expand_as(action_mean))
        probs = Normal(action_mean, action_std)
        if action is None:
            action = action_mean + action_std * torch.randn_like(action_mean)
        return action, probs.log_prob(action).sum(1), probs.entropy().sum(1), self.critic(x)


def main():
    parser = argparse.ArgumentParser()
    for name, value in vars(Args()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    envs, agent = Environment(args, device), Agent(args).to(device)
    optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    policy = torch.compile(agent.get_action_and_value)

    @torch.compile(fullgraph=True)
    def ppo_loss(obs, actions, logprobs, advantages, returns):
        _, newlogprob, entropy, newvalue = agent.get_action_and_value(obs, actions)
        ratio = (newlogprob - logprobs).exp()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        clipped = torch.clamp(ratio, 1 - args.clip_coef, 1 + args.clip_coef)
        pg_loss = torch.max(-advantages * ratio, -advantages * clipped).mean()
        v_loss = 0.5 * ((newvalue.view(-1) - returns) ** 2).mean()
        return pg_loss - args.ent_coef * entropy.mean() + args.vf_coef * v_loss, ratio.detach()

    shape = (args.num_steps, args.num_envs)
    obs = torch.zeros((*shape, args.observations), device=device)
    actions = torch.zeros((*shape, args.actions), device=device)
    logprobs, rewards, dones, values = (torch.zeros(shape, device=device) for _ in range(4))
    global_step, start_time = 0, time.time()
    next_obs, next_done = envs.reset(), torch.zeros(args.num_envs, device=device)
    batch_size = args.num_envs * args.num_steps
    minibatch_size = batch_size // args.num_minibatches
    for iteration in range(1, args.iterations + 1):
        optimizer.param_groups[0]["lr"] = (1.0 - (iteration - 1.0) / args.iterations) * args.learning_rate
        for step in range(args.num_steps):
            global_step += args.num_envs
            obs[step], dones[step] = next_obs, next_done
            with torch.no_grad():
                action, logprob, _, value = policy(next_obs)
            values[step], actions[step], logprobs[step] = value.flatten(), action, logprob
            next_obs, reward, done = envs.step(action)
            rewards[step], next_done = reward, done.float()
        with torch.no_grad():
            next_value = agent.get_value(next_obs).reshape(1, -1)
            advantages, lastgaelam = torch.zeros_like(rewards), 0
            for t in reversed(range(args.num_steps)):
                last = t == args.num_steps - 1
                nonterminal = 1.0 - (next_done if last else dones[t + 1])
                nextvalues = next_value if last else values[t + 1]
                delta = rewards[t] + args.gamma * nextvalues * nonterminal - values[t]
                advantages[t] = lastgaelam = delta + args.gamma * args.gae_lambda * nonterminal * lastgaelam
            returns = advantages + values
        flat = [x.reshape((-1, *x.shape[2:])) for x in (obs, actions, logprobs, advantages, returns)]
        b_inds, clipfracs = np.arange(batch_size), []
        for _ in range(args.update_epochs):
            np.random.shuffle(b_inds)
            for start in range(0, batch_size, minibatch_size):
                mb_inds = torch.from_numpy(b_inds[start : start + minibatch_size]).to(device)
                loss, ratio = ppo_loss(*(each[mb_inds] for each in flat))
                clipfracs += [((ratio - 1.0).abs() > args.clip_coef).float().mean().item()]
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()
        sps = int(global_step / (time.time() - start_time))
        print(f"iteration {iteration}: loss {loss.item():.3f} clipfrac {np.mean(clipfracs):.3f} SPS {sps}")


if __name__ == "__main__":
    main()
