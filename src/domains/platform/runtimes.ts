import { AppError } from '../../contract/app-error.ts'

/**
 * `image` is the name in the standard registry; `resolvedImage` is the workspace image that replaces it here, or null,
 * and `reason` then says why.
 */
type RuntimeRow = Readonly<{
  language: string
  version: string
  image: string
  description: string
  deprecated: boolean
  resolvedImage: string | null
  reason: string | null
}>

type RuntimeRequest = Readonly<{ language: string | null; version: string | null; image: string | null }>

type RuntimeDeps = Readonly<{
  /** Versions of the languages installed on the machine, such as `3.11.2`. Absent: not installed. */
  hostVersions(): Promise<Readonly<Record<string, string>>>
  /** Names of the images that workspaces can start from. */
  images(): Promise<readonly string[]>
}>

type Standard = Pick<RuntimeRow, 'language' | 'version' | 'image' | 'description' | 'deprecated'>
const standard = (language: string, version: string, image: string, description: string, deprecated = false) =>
  ({ language, version, image, description, deprecated }) satisfies Standard

const standardRuntimes: readonly Standard[] = [
  standard('go', '1.20', 'golang:1.20-alpine', 'Go 1.20'),
  standard('go', '1.21', 'golang:1.21-alpine', 'Go 1.21'),
  standard('javascript', '18', 'node:18-alpine', 'Node.js 18'),
  standard('javascript', '20', 'node:20-alpine', 'Node.js 20'),
  standard('python', '3.9', 'python:3.9-slim', 'CPython 3.9', true),
  standard('python', '3.10', 'python:3.10-slim', 'CPython 3.10'),
  standard('python', '3.11', 'python:3.11-slim', 'CPython 3.11'),
  standard('rust', '1.74', 'rust:1.74-alpine', 'Rust 1.74'),
  standard('rust', '1.75', 'rust:1.75-alpine', 'Rust 1.75'),
  standard('typescript', '5.1', 'node:20-alpine', 'TypeScript 5.1 on Node.js 20'),
]

const HOST_IMAGE = 'host'
const OWN_PREFIX = 'castellan/'
/** How many parts of a version distinguish two runtimes of a language. */
const partsThatCount: Readonly<Record<string, number>> = { javascript: 1 }
const shortVersion = (language: string, version: string): string =>
  version
    .split('.')
    .slice(0, partsThatCount[language] ?? 2)
    .join('.')

export type RuntimeRegistry = ReturnType<typeof createRuntimeRegistry>

/** The available runtimes, and the workspace image of each. */
export function createRuntimeRegistry(deps: RuntimeDeps) {
  async function rows(): Promise<RuntimeRow[]> {
    const [host, images] = await Promise.all([deps.hostVersions(), deps.images()])
    const own = Object.entries(host)
      .map(([language, version]) => ({ language, version: shortVersion(language, version) }))
      .filter(
        ({ language, version }) => !standardRuntimes.some((s) => s.language === language && s.version === version),
      )
      .map(({ language, version }) =>
        standard(language, version, `${OWN_PREFIX}${HOST_IMAGE}`, `${language} ${version} of this machine`),
      )
    return [...standardRuntimes, ...own]
      .map((runtime) => ({ ...runtime, ...resolved(runtime, host, images) }))
      .sort((left, right) => compareText(left.language, right.language) || compareVersions(left.version, right.version))
  }

  async function resolve({ language, version, image }: RuntimeRequest): Promise<string> {
    if (image !== null) {
      const images = await deps.images()
      const found = imageNames(image).find((candidate) => images.includes(candidate))
      if (found !== undefined) return found
      throw unavailable(
        'spec.runtime.image',
        `no workspace image provides it; build one with castellan image build under the name ${imageNames(image)[0]}`,
      )
    }
    const row = (await rows()).find((one) => one.language === language?.toLowerCase() && one.version === version)
    if (row === undefined) throw unavailable('spec.runtime', 'there is no such language and version')
    if (row.resolvedImage === null) throw unavailable('spec.runtime', row.reason ?? 'it cannot be run here')
    return row.resolvedImage
  }

  return {
    list: async (language?: string): Promise<RuntimeRow[]> =>
      (await rows()).filter((row) => language === undefined || row.language === language.trim().toLowerCase()),

    /** The workspace image for `spec.runtime`; refuses by name what cannot run here. */
    resolve,
    /** Why it cannot run here, in the words of the refusal; undefined if it can. */
    problem: (request: RuntimeRequest): Promise<string | undefined> =>
      resolve(request).then(
        () => undefined,
        (error: unknown) => {
          if (error instanceof AppError) return error.message
          throw error
        },
      ),
  }
}

function resolved(
  { language, version }: Standard,
  host: Readonly<Record<string, string>>,
  images: readonly string[],
): Pick<RuntimeRow, 'resolvedImage' | 'reason'> {
  const built = `${language}-${version}`
  if (images.includes(built)) return { resolvedImage: built, reason: null }
  const installed = host[language]
  if (installed !== undefined && shortVersion(language, installed) === version) {
    return { resolvedImage: HOST_IMAGE, reason: null }
  }
  const have = installed === undefined ? 'this machine has none' : `this machine has ${installed}`
  return { resolvedImage: null, reason: `${have}; build one with castellan image build under the name ${built}` }
}

/** `castellan/NAME` is the image NAME; of any other reference the last part counts, with or without its tag. */
function imageNames(reference: string): string[] {
  if (reference.startsWith(OWN_PREFIX)) return [reference.slice(OWN_PREFIX.length)]
  const last = reference.split('@')[0]!.split('/').at(-1)!
  const [name = '', tag] = last.split(':')
  return tag === undefined ? [name] : [`${name}-${tag}`, name]
}

const unavailable = (field: string, why: string): AppError =>
  new AppError('ERR_CAPABILITY_MISSING', `${field}: ${why}. See aegis.runtime.list.`, { field })

const compareText = (left: string, right: string): number => (left < right ? -1 : left > right ? 1 : 0)

function compareVersions(left: string, right: string): number {
  const [a, b] = [left, right].map((version) => version.split('.').map(Number)) as [number[], number[]]
  for (let index = 0; index < Math.max(a.length, b.length); index++) {
    const difference = (a[index] ?? 0) - (b[index] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}
