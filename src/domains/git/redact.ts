/**
 * Removes secrets from every text that leaves: git's output, addresses, file names, diffs. It recognises the forms of
 * tokens. A secret without a known form cannot be found, which is why credentials belong in the egress proxy. All
 * patterns take linear time: no repetition contains another one over the same characters.
 */
const REDACTED = '[redacted]'

/** Tokens with a unique prefix. */
const unmistakable: readonly string[] = [
  'gh[opsur]_[A-Za-z0-9_]{16,}(?:\\.[A-Za-z0-9_-]+)*',
  'github_pat_[A-Za-z0-9_]{16,}',
  'gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|oas|soat|ffct|wt|ssat)-[A-Za-z0-9_.=-]{8,}',
  'GR1348941[A-Za-z0-9_-]{16,}',
  'AT(?:ATT|CTT)3[A-Za-z0-9_=-]{20,}',
  'cst_[0-9a-z]{8}_[A-Za-z0-9_-]{20,}',
  'dckr_(?:pat|oat)_[A-Za-z0-9_-]{16,}',
  'do[opr]_v1_[a-f0-9]{32,}',
  'xox[abeoprs](?:\\.[a-z]+)?-[A-Za-z0-9-]{10,}',
]

/** Tokens whose prefix could be the end of a word: only if no word precedes them. */
const atWordStart: readonly string[] = [
  'ATBB[A-Za-z0-9]{20,}',
  'sk-[A-Za-z0-9_-]{20,}',
  '[rs]k_(?:live|test)_[A-Za-z0-9]{16,}',
  'whsec_[A-Za-z0-9]{16,}',
  'npm_[A-Za-z0-9]{30,}',
  'pypi-[A-Za-z0-9_-]{16,}',
  'hf_[A-Za-z0-9]{30,}',
  'xapp-[A-Za-z0-9-]{10,}',
  'AIza[A-Za-z0-9_-]{30,}',
  'ya29\\.[A-Za-z0-9_-]{20,}',
  'GOCSPX-[A-Za-z0-9_-]{16,}',
  '(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])',
  'SG\\.[A-Za-z0-9_-]{16,}\\.[A-Za-z0-9_-]{16,}',
  'lin_(?:api|oauth)_[A-Za-z0-9]{16,}',
  'shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{16,}',
  'gl(?:sa|c)_[A-Za-z0-9_=-]{20,}',
  'hv[bs]\\.[A-Za-z0-9_-]{20,}',
  'dapi[a-f0-9]{32}',
  'figd_[A-Za-z0-9_-]{20,}',
  'AGE-SECRET-KEY-1[A-Z0-9]{20,}',
]
const tokens = new RegExp(`${unmistakable.join('|')}|(?<![A-Za-z0-9])(?:${atWordStart.join('|')})`, 'g')

/**
 * Matches only at the start of such characters, or after the sign of a removed line, so that no text is scanned twice.
 */
const webToken = /(?:(?<![A-Za-z0-9_-])|(?<=^-))eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*/gm

/** User and password of an address, up to the last @ before the path, as git and curl parse it. */
const userInfo = /:\/\/([^\s/?#"'<>`]*)@/g
const isSecretUserInfo = (info: string, before: string): boolean => info.includes(':') || !/ssh$/i.test(before)

const parameter =
  /([?&;](?:access_token|auth_token|private_token|token|api_?key|key|password|passwd|secret|client_secret|sig|signature|x-amz-signature|x-amz-security-token|x-goog-signature)=)[^\s&;#"'<>`]+/gi

/** Headers with credentials; for schemes with several parts, the rest of the line is removed. */
const header =
  /((?:proxy-)?authorization["']?\s{0,8}[:=]\s{0,8}["'`]?)(?:((?:digest|hawk|oauth|aws4-[a-z0-9-]{1,24})\s)[^\r\n]+|((?:basic|bearer|token|negotiate|apikey)\s{1,8})?[^\s"'`,;]+)/gi
const headerOfOneValue =
  /((?:x-api-key|x-auth-token|private-token|job-token|deploy-token|x-amz-security-token)["']?\s{0,8}:\s{0,8}["'`]?)[^\s"'`,;]+/gi
const cookie = /((?:set-)?cookie:\s{0,8})[^\s=;,"'`]{1,256}=[^\r\n"'`]+/gi
const bearer = /(\bbearer\s{1,8})[A-Za-z0-9._~+/=-]{12,}/gi
const assignedSecret = /(\baws_secret_access_key["']?\s{0,8}[:=]\s{0,8}["']?)[A-Za-z0-9/+]{40}/gi

export function redact(text: string): string {
  if (text === '') return text
  return redactPrivateKeys(text)
    .replace(userInfo, (whole, info: string, at: number, all: string) =>
      isSecretUserInfo(info, all.slice(Math.max(at - 3, 0), at)) ? `://${REDACTED}@` : whole,
    )
    .replace(parameter, `$1${REDACTED}`)
    .replace(header, (_whole, name: string, wide: string | undefined, scheme: string | undefined) => {
      return `${name}${wide ?? scheme ?? ''}${REDACTED}`
    })
    .replace(headerOfOneValue, `$1${REDACTED}`)
    .replace(cookie, `$1${REDACTED}`)
    .replace(bearer, `$1${REDACTED}`)
    .replace(assignedSecret, `$1${REDACTED}`)
    .replace(tokens, REDACTED)
    .replace(webToken, REDACTED)
}

const KEY_BEGIN = /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/g
const KEY_END = /-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/g

/** A key without an end was cut off: it extends to the end of the text. */
function redactPrivateKeys(text: string): string {
  let retained = ''
  let from = 0
  for (;;) {
    KEY_BEGIN.lastIndex = from
    const begin = KEY_BEGIN.exec(text)
    if (begin === null) return retained + text.slice(from)
    retained += `${text.slice(from, begin.index)}${REDACTED}`
    KEY_END.lastIndex = KEY_BEGIN.lastIndex
    if (KEY_END.exec(text) === null) return retained
    from = KEY_END.lastIndex
  }
}

/** Every string in plain objects and lists. Keys are ours and stay. */
export function redactAll<T>(value: T): T {
  if (typeof value === 'string') return redact(value) as T
  if (Array.isArray(value)) return value.map(redactAll) as T
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, redactAll(member)])) as T
}
