"""What stands for the programs that foreign scripts call: docker, nvidia-docker, srun, sudo and so on.

Inside, each name is one small client (client.py) first on the PATH. It hands its words, environment and open files to
the broker outside (broker.py), which asks the translator of that name what may be done, and does that. So foreign
scripts never hold the Docker socket, Slurm's key or our rights, and pure functions decide what becomes of every call.
"""
