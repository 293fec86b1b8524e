import { resolve } from 'node:path'
import { commonFlags } from '../../cli/command.ts'
import { textTable } from '../../cli/terminal.ts'
import { AppError } from '../../contract/app-error.ts'
import { isoTime } from '../../kernel/clock.ts'
import { type Environment, URL_VARIABLE } from '../config-paths.ts'
import { type ImageService, type ImageSource, openImages } from '../wiring/open-images.ts'
import { actionCommand, argumentOf } from './action-command.ts'
import { type CommandContext, loadCommandConfig, printJson } from './context.ts'
import { reportVariables } from './report-variables.ts'

const spec = {
  name: 'image',
  onlyHere: 'Images are files of the machine whose workspaces use them. Run castellan image on that machine.',
  summary: 'Build, list and remove the images that workspaces start from.',
  description:
    "Build, list and remove the images that workspaces start from. The image 'host', this machine's own programs, always exists and needs no build.",
  flags: commonFlags,
  examples: [
    'castellan image build debian --from debootstrap --suite bookworm',
    'castellan image build alpine --from oci-archive alpine.tar',
    'castellan image list',
  ],
} as const

export const command = actionCommand({
  ...spec,
  actions: {
    build: {
      arguments: 'NAME [SOURCE]',
      summary:
        'Build an image; if the build fails, nothing is left behind. --from debootstrap builds a minimal Debian in which packages can be installed. --from oci-archive unpacks SOURCE, a file of "skopeo copy … oci-archive:SOURCE" or "docker save". --from directory copies the directory SOURCE.',
      flags: {
        from: { type: 'string', value: 'KIND', description: 'debootstrap, oci-archive or directory.' },
        suite: { type: 'string', value: 'SUITE', description: 'debootstrap: the release (bookworm).' },
        mirror: { type: 'string', value: 'URL', description: "debootstrap: the mirror (this machine's own)." },
        'max-gb': { type: 'string', value: 'GB', description: 'Refuse an image larger than this when unpacked (20).' },
      },
      run: build,
    },
    list: { summary: 'Show the images.', run: list },
    remove: { arguments: 'NAME', summary: 'Remove an image that no workspace uses.', run: remove },
  },
})

async function open(context: CommandContext): Promise<ImageService> {
  if (context.env[URL_VARIABLE]) {
    const message = `${URL_VARIABLE}: ${spec.onlyHere} For the images of this one, unset ${URL_VARIABLE}.`
    throw new AppError('ERR_INVALID_INPUT', message, { field: URL_VARIABLE })
  }
  await reportVariables(context)
  const { config } = await loadCommandConfig(context)
  return openImages({ config, version: context.version })
}

/** Aborted when the process is told to end, so that the work cleans up. */
function signalOf(context: CommandContext): AbortSignal {
  const abort = new AbortController()
  void context.ended.then(() => abort.abort())
  return abort.signal
}

async function build(context: CommandContext): Promise<number> {
  const { terminal } = context
  const name = argumentOf(context)
  const source = readSource(context)
  const bytesMax = readBytesMax(context)
  const images = await open(context)
  const environment = proxies(context.env)
  const image = await images
    .build({ name, source, bytesMax, environment, signal: signalOf(context), onProgress: terminal.progress })
    .finally(() => terminal.progressDone())
  const { notes, createdAtMs, ...rest } = image
  if (context.json) printJson(context, { ...rest, created_at: isoTime(createdAtMs), notes })
  else {
    for (const note of notes) terminal.error(`${note}\n`)
    terminal.out(`Built ${image.name} from ${image.source}, ${megabytes(image.bytes)}.\n`)
  }
  return 0
}

async function list(context: CommandContext): Promise<number> {
  const images = await (await open(context)).list()
  const timeOf = (createdAtMs: number | null) => (createdAtMs === null ? null : isoTime(createdAtMs))
  if (context.json) {
    printJson(context, {
      images: images.map(({ createdAtMs, ...image }) => ({ ...image, created_at: timeOf(createdAtMs) })),
    })
    return 0
  }
  const rows = images.map(({ name, source, bytes, packages, createdAtMs }) => {
    return [name, source, megabytes(bytes), packages ? 'yes' : 'no', timeOf(createdAtMs) ?? 'at its first use']
  })
  context.terminal.out(textTable([['NAME', 'SOURCE', 'SIZE', 'PACKAGES', 'CREATED'], ...rows]))
  return 0
}

async function remove(context: CommandContext): Promise<number> {
  const name = argumentOf(context)
  await (await open(context)).remove(name, signalOf(context))
  if (context.json) printJson(context, { removed: name })
  else context.terminal.out(`Removed ${name}.\n`)
  return 0
}

function readSource(context: CommandContext): ImageSource {
  const { parsed, workingDirectory } = context
  const kind = parsed.text('from')
  const path = parsed.positionals[2]
  const refuse = (field: string, message: string): AppError =>
    new AppError('ERR_INVALID_INPUT', `${message} See: castellan image build --help`, { field })
  if (kind === 'debootstrap') {
    if (path !== undefined) throw refuse('SOURCE', 'debootstrap takes no SOURCE.')
    return { kind, suite: parsed.text('suite') ?? 'bookworm', mirror: parsed.text('mirror') }
  }
  if (kind !== 'oci-archive' && kind !== 'directory') {
    throw refuse('from', '--from must be debootstrap, oci-archive or directory.')
  }
  for (const flag of ['suite', 'mirror']) {
    if (parsed.text(flag) !== undefined) throw refuse(flag, `--${flag} is only for --from debootstrap.`)
  }
  if (path === undefined) throw refuse('SOURCE', `SOURCE is missing. Name the ${kind} to build from.`)
  return { kind, path: resolve(workingDirectory, path) }
}

function readBytesMax(context: CommandContext): number {
  const text = context.parsed.text('max-gb') ?? '20'
  const value = Number(text)
  if (/^\d+(\.\d+)?$/.test(text) && value > 0 && value <= 1_000) return value * 1024 ** 3
  throw new AppError('ERR_INVALID_INPUT', '--max-gb must be a number above 0 and up to 1000.', { field: 'max-gb' })
}

/** The proxy variables that debootstrap needs. */
function proxies(env: Environment): Record<string, string> {
  const names = ['http_proxy', 'https_proxy', 'no_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY']
  return Object.fromEntries(names.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])))
}

const megabytes = (bytes: number): string => `${(bytes / 1024 ** 2).toFixed(1)} MB`
