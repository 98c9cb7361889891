"""The forms of what must not leave a site: keys, addresses, paths, hosts and registries; and of what may."""

from __future__ import annotations

import re

# detect-secrets' plugins that know a form of key; entropy alone would take every hash in a lock file for a key.
PLUGINS = (
    *("ArtifactoryDetector", "AWSKeyDetector", "AzureStorageKeyDetector", "BasicAuthDetector", "CloudantDetector"),
    *("DiscordBotTokenDetector", "GitHubTokenDetector", "GitLabTokenDetector", "IbmCloudIamDetector"),
    *("IbmCosHmacDetector", "JwtTokenDetector", "KeywordDetector", "MailchimpDetector", "NpmDetector"),
    *("OpenAIDetector", "PypiTokenDetector", "SendGridDetector", "SlackDetector", "SoftlayerDetector"),
    *("SquareOAuthDetector", "StripeDetector", "TelegramBotTokenDetector", "TwilioKeyDetector"),
)
KEYWORDS = (
    r"(?i:(?:api|auth|service|account|db|database|priv|private|client|access|storage|account)[_-]?key|pass(?:word|wd|phrase)"
    r"|_pass\b|\bpwd|contrase|secret|token|credential|bearer|authorization|softlayer|cloudant|cos_|ibm_)"
)
FORMS = (
    r"://[^\s/:@]+:[^\s/@]+@|A3T[A-Z0-9]|AKIA|ABIA|ACCA|ASIA|gh[pousr]_|github_pat_|gl\w{2,6}-|xox[a-z]-|hooks\.slack|eyJ"
    r"|PRIVATE KEY|PuTTY-User|AKC[a-zA-Z0-9]|AP[0-9A-F][a-zA-Z0-9]{8}|[sr]k_(?:live|test)|SG\.|(?:SK|AC)[a-z0-9]{32}"
    r"|_authToken|npm_|pypi-|sq0csp|sk-|hf_[A-Za-z]|nvapi-|wandb|AccountKey|[0-9]{8,10}:[0-9A-Za-z_-]{35}|-us[0-9]{1,2}"
    r"|[MNO][a-zA-Z\d_-]{23,25}\.[a-zA-Z\d_-]{6}\."
)
# Forms that detect-secrets does not know; the first group is the secret.
TOKENS = (
    r"\b(hf_[A-Za-z]{34,})\b",
    r"\b(nvapi-[\w-]{60,})",
    r"\b(eyJ[\w-]{8,}\.eyJ[\w-]{4,}\.[\w-]{8,})",
    r"\b(github_pat_\w{60,})",
    r"\b(sk-(?:proj-|ant-)?[\w-]{32,})",
    r"(?i)\bauthorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token)\s+([\w.~+/=-]{8,})",
    r"(?i)\b(?:[\w-]*(?:token|secret|passw(?:or)?d|passphrase|api_?key|access_?key|auth_?key))\b[\"']?\s*[:=]\s*[\"']?"
    r"((?=(?:[\w~+/=-]*?\d){3})(?=[\d~+/=-]*[A-Za-z])[\w~+/=-]{16,})",
    r"(?i)--?(?:password|passwd|token|api-key|secret)[= ]([^\s\"'$<]{6,})",
    r"\b[A-Z_]*(?:PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY)=[\"']?([^\s\"'${}()<>,;]{6,})",
)
KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
    r"(?:.{0,20000}?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\s\\]*)",
    re.DOTALL,
)
SITES = r"home|users|lustre|gpfs|beegfs|weka|vast|nfs\d*|efs|fsx|raid|scratch"
PATH = re.compile(rf"(?<![\w.$}}{{:/-])/(?i:{SITES})(?:/[\w.+@-]+)+")
QUAD = re.compile(r"(?<![\w.+-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d|\.\w|-)")
IPV6 = re.compile(
    r"(?<![\w:.])(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}(?![\w:])|(?<![\w:.])(?:fe80|f[cd][0-9a-f]{2}|2[0-9a-f]{3})(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])"
)
PRIVATE_HOST = re.compile(
    r"(?<![\w.@/-])(?:[a-z0-9][a-z0-9-]*\.)+(?:local|internal|intranet|corp|lan|localdomain|private)\b(?!\.\w|\()", re.I
)
REGISTRY = re.compile(
    r"(?<![\w.-])((?:registry|docker|harbor|nexus|artifactory|gitlab|pypi|conda|mirror)[\w-]*(?:\.[\w-]+)+"
    r"(?::\d+\b|(?=[/#]))|\d{12}\.dkr\.ecr\.[\w-]+\.amazonaws\.com)",
    re.I,
)
PUBLIC_REGISTRIES = re.compile(
    r"(?:registry(?:-1)?\.docker\.io|docker\.io|docker\.com|(?:registry\.)?gitlab\.com|registry\.k8s\.io|docker\.elastic\.co"
    r"|pypi\.org|pypi\.python\.org|pypi\.nvidia\.com|pypi\.ngc\.nvidia\.com|conda\.anaconda\.org|registry\.npmjs\.org"
    r"|registry\.hub\.docker\.com|mirrors?\.kernel\.org|registry\.redhat\.io|registry\.access\.redhat\.com)(?::\d+)?",
    re.I,
)
PLACEHOLDER = re.compile(r"SCRUBBED_[A-Z0-9_]+_\d+")  # what the scrub itself writes
# A number with three dots is a version where such a word or mark stands before it.
VERSION = re.compile(r"(?:version|release|driver|cudnn|cublas|nccl|cuda|rocm|[=<>~^]=|\bv|[A-Za-z]-)[\s:\"'=]*$", re.I)


LICENCE = (
    r"(?i)proprietary and confidential|confidential and proprietary|without an express license agreement"
    r"|not for (?:re)?distribution|do not (?:re)?distribute|under (?:a )?non-?disclosure"
)
