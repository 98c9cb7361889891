"""What must never leave a site, made up: planted by the tests of the scrub."""

from __future__ import annotations

# Made up, each in the form that its service gives out; in two halves, so that no scanner takes this file for a leak.
SECRETS = {
    "aws key": "AKIA" + "Q3EGZVJ7KLMNWX2T",
    "aws secret": "aws_secret_access_key = " + "wJa1rXUtnF3MI7K7MDENGbPxRf1CYz3zzKEYq9Lm",
    "github": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "github fine-grained": "github_pat_" + "11ABCDEFG0" + "a1B2c3D4e5F6" * 6,
    "gitlab": "glpat-" + "x7Yz9AbCdEfGhIjKlMnO",
    "slack": "xoxb-" + "123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx",
    "hugging face": "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh",
    "ngc": "nvapi-" + "a1B2c3D4e5F6g7H8" * 4,
    "openai": "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6",
    "jwt": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "basic auth": "https://builder:" + "s3cr3tPassw0rd" + "@git.example.org/x.git",
    "bearer": "Authorization: Bearer " + "abc123def456ghi789",
    "password": 'password = "' + 'correct7horse8battery"',
    "environment": "export WANDB_API_KEY=" + "0123abcd4567ef890123abcd4567ef890123abcd",
    "pypi": "pypi-"
    + "AgEIcHlwaS5vcmc"
    + "CJDAxMjM0NTY3LTg5YWItY2RlZi0wMTIzLTQ1Njc4OWFiY2RlZgACKlszLCJhYmNkZWYiXQAABiD",
    "private key": "-----BEGIN OPENSSH "
    + "PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU\nAAAAtz\n-----END OPENSSH "
    + "PRIVATE KEY-----",
}
SITE = {
    "host": "dgx-a100-017",
    "another host of the cluster": "dgx-a100-003",
    "a list of hosts": "dgx-a100-[001-128]",
    "a host of the domain": "storage7.cluster.example.org",
    "an internal host": "vault.corp",
    "address": "10.20.30.40",
    "public address": "93.184.216.34",
    "ipv6": "fd12:3456:789a:1::1",
    "user": "alicezhang",
    "home": "/home/bobmiller/mlperf",
    "site path": "/lustre/fsw/team_x/bert",
    "work root": "/srv/site/podium",
    "registry": "registry.example.org:5005",
    "ecr": "123456789012.dkr.ecr.us-east-1.amazonaws.com",
    "operator's own": "PRJ-1234",
}
