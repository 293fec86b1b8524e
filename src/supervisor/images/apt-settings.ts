import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { AppError } from '../../contract/app-error.ts'
import { SYSTEM_PATH } from '../user-namespace.ts'

/** What a new Debian system needs to reach packages the way this machine does. */
export type AptSettings = Readonly<{
  mirror: string
  /** The content of sources.list. */
  sources: string
  /** The content of a file in apt.conf.d. */
  configuration: string
  /** Messages for the user about what was left out. */
  notes: readonly string[]
}>

type AptSource = Readonly<{ uri: string; suite: string; components: readonly string[]; signedBy: string }>

const DEFAULT_MIRROR = 'http://deb.debian.org/debian'
const archiveKeyring = /^$|\/(debian|ubuntu)-archive-keyring\.(gpg|pgp|asc)$/
/** Only those settings of the machine that decide how a mirror is reached. */
const copiedSetting = /^Acquire::(https?::Proxy(::[\w.-]+)?|Check-Valid-Until) "([^"\n]*)";$/

export async function readAptSettings(
  request: Readonly<{ suite: string; mirror: string | undefined; aptDirectory?: string }>,
): Promise<AptSettings> {
  const { suite } = request
  if (!/^[a-z0-9][a-z0-9.+-]{0,63}$/.test(suite)) {
    throw new AppError('ERR_INVALID_INPUT', '--suite must be the code name of a release, such as bookworm.', {
      field: 'suite',
    })
  }
  const known = request.mirror === undefined ? await readSources(request.aptDirectory ?? '/etc/apt') : []
  const fitting = known.filter((source) => [suite, `${suite}-updates`, `${suite}-security`].includes(source.suite))
  const main = fitting.find((source) => source.suite === suite)
  const mirror = requireMirror(request.mirror ?? main?.uri ?? DEFAULT_MIRROR)
  const listed = main === undefined ? [{ uri: mirror, suite, components: ['main'] }] : fitting
  const { settings, hidden } = await readConfiguration()
  return {
    mirror,
    sources: listed.map(({ uri, suite: name, components }) => `deb ${uri} ${name} ${components.join(' ')}\n`).join(''),
    // Package lists are retained, so that packages can be installed at once. Compressed and without translations they are small.
    configuration: [...settings, 'Acquire::Languages "none";', 'Acquire::GzipIndexes "true";', ''].join('\n'),
    notes: hidden ? ['The proxy in the settings of apt has a password, so the image does not know it.'] : [],
  }
}

function requireMirror(mirror: string): string {
  const url = URL.parse(mirror)
  const isUsable = url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === ''
  if (isUsable && !/\s/.test(mirror)) return mirror.replace(/\/+$/, '')
  throw new AppError('ERR_INVALID_INPUT', '--mirror must be an http or https URL without a password.', {
    field: 'mirror',
  })
}

async function readSources(directory: string): Promise<AptSource[]> {
  const parts = join(directory, 'sources.list.d')
  const names = (await readdir(parts).catch(() => [])).sort()
  const files = [join(directory, 'sources.list'), ...names.map((name) => join(parts, name))]
  const found: AptSource[] = []
  for (const file of files) {
    const parse = file.endsWith('.sources') ? parseStanzas : file.endsWith('.list') ? parseLines : undefined
    if (parse !== undefined) found.push(...parse(await readFile(file, 'utf8').catch(() => '')))
  }
  return found.filter(({ uri, components, signedBy }) => {
    const url = URL.parse(uri)
    const isPublic = url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === ''
    // Other archives are signed with keys that a new system lacks.
    return isPublic && components.includes('main') && archiveKeyring.test(signedBy)
  })
}

/** `deb [options] URI SUITE COMPONENT…` */
function parseLines(text: string): AptSource[] {
  return text.split('\n').flatMap((line) => {
    const match = /^\s*deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)((?:\s+[^\s#]+)+)/.exec(line)
    if (match === null) return []
    const signedBy = /(?:^|\s)signed-by=(\S+)/.exec(match[1] ?? '')?.[1] ?? ''
    return [{ uri: match[2]!, suite: match[3]!, components: match[4]!.trim().split(/\s+/), signedBy }]
  })
}

/** The deb822 format: stanzas separated by empty lines, with continuation lines that begin with a space. */
function parseStanzas(text: string): AptSource[] {
  const lines = text.split('\n').filter((line) => !line.startsWith('#'))
  const stanzas = lines.join('\n').split(/\n\s*\n/)
  return stanzas.flatMap((stanza) => {
    const fields = new Map<string, string>()
    for (const match of stanza.matchAll(/^([\w-]+):[ \t]*(.*(?:\n[ \t].*)*)/gm)) {
      fields.set(match[1]!.toLowerCase(), match[2]!.trim())
    }
    const words = (name: string): string[] => (fields.get(name) ?? '').split(/\s+/).filter(Boolean)
    if (!words('types').includes('deb') || fields.get('enabled') === 'no') return []
    return words('uris').flatMap((uri) =>
      words('suites').map((suite) => ({
        uri,
        suite,
        components: words('components'),
        signedBy: fields.get('signed-by') ?? '',
      })),
    )
  })
}

async function readConfiguration(): Promise<{ settings: string[]; hidden: boolean }> {
  const run = promisify(execFile)
  const dump = await run('apt-config', ['dump'], { env: { PATH: SYSTEM_PATH } }).catch(() => ({ stdout: '' }))
  const lines = dump.stdout.split('\n').filter((line) => copiedSetting.test(line))
  const settings = lines.filter((line) => !line.includes('@'))
  return { settings, hidden: settings.length < lines.length }
}
