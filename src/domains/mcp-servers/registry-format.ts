import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { Catalog } from './catalog.ts'
import type { CatalogItem } from './ports.ts'
import { type ServerConfig, valueFields } from './rules.ts'

type RegistryQuery = Readonly<{
  name?: string | undefined
  version?: string | undefined
  search?: string | undefined
  updated_since?: string | undefined
  cursor?: string | undefined
  limit?: number | undefined
}>

const NAMESPACE = 'castellan/'
const OFFICIAL = 'io.modelcontextprotocol.registry/official'

/** The catalogue in the format of the MCP registry: what the caller may see, without any deployed value. */
export function createRegistryReader(catalog: Pick<Catalog, 'visible'>) {
  return async (call: Pick<Call, 'principal' | 'read' | 'readsFrom'>, query: RegistryQuery) => {
    const entries = named(await catalog.visible(call.read, call.principal))
    const search = query.search?.toLowerCase()
    const sinceMs = query.updated_since === undefined ? 0 : Date.parse(query.updated_since)
    const after = query.cursor === undefined ? '' : Buffer.from(query.cursor, 'base64url').toString('utf8')
    const found = entries.filter(
      ({ name, item }) =>
        (query.name === undefined || name === query.name) &&
        (query.version === undefined || query.version === 'latest' || query.version === versionOf(item)) &&
        (search === undefined || name.includes(search) || item.name.toLowerCase().includes(search)) &&
        item.updatedAtMs >= sinceMs &&
        name > after,
    )
    if (query.name !== undefined && found.length === 0) throw notFound(query.name)
    const displayed = found.slice(0, query.limit ?? limits.mcpRegistryPageDefault)
    for (const { item } of displayed) call.readsFrom?.(`server:${item.id}`)
    const last = displayed.length < found.length ? displayed.at(-1) : undefined
    return {
      servers: displayed.map(entryOf),
      metadata: {
        count: displayed.length,
        ...(last === undefined ? {} : { nextCursor: Buffer.from(last.name).toString('base64url') }),
      },
    }
  }
}

type Entry = Readonly<{ name: string; item: CatalogItem }>

/** By slug, in order; servers with the same slug also have a part of their id. */
function named(items: readonly CatalogItem[]): readonly Entry[] {
  const counts = new Map<string, number>()
  for (const { slug } of items) counts.set(slug, (counts.get(slug) ?? 0) + 1)
  return items
    .map((item) => ({
      name: `${NAMESPACE}${item.slug}${counts.get(item.slug) === 1 ? '' : `.${item.id.slice(0, 8)}`}`,
      item,
    }))
    .sort((one, other) => (one.name < other.name ? -1 : 1))
}

const versionOf = ({ version }: CatalogItem): string => version ?? '0.0.0'

function entryOf({ name, item }: Entry) {
  const { config, description, docsUrl, repository } = item
  return {
    server: {
      name,
      title: item.name.slice(0, 100),
      description: (description?.trim() || item.name).slice(0, 100),
      version: versionOf(item),
      ...(docsUrl === null ? {} : { websiteUrl: docsUrl }),
      ...(repository === null ? {} : { repository: { url: repository, source: sourceOf(repository) } }),
      ...(item.serverType === 'remote' ? { remotes: [remoteOf(config)] } : packagesOf(config)),
    },
    _meta: {
      [OFFICIAL]: {
        status: 'active' as const,
        publishedAt: isoTime(item.createdAtMs),
        updatedAt: isoTime(item.updatedAtMs),
        isLatest: true,
      },
    },
  }
}

const sourceOf = (repository: string): string =>
  /^https?:\/\/(?:www\.)?(github|gitlab)\./.exec(repository)?.[1] ?? 'git'

/** The headers that a client has to send, without anybody's values. */
function remoteOf(config: ServerConfig) {
  const fromAuth = (config.authFields ?? [])
    .filter(({ type }) => type === 'header')
    .map(({ name, label, secret }) => inputOf(name, label, config.requiresAuth === true, secret))
  const fromUser = Object.values(config.userConfig ?? {}).flatMap((field) =>
    field.headerName === undefined
      ? []
      : [inputOf(field.headerName, field.description ?? '', field.required === true, field.sensitive === true)],
  )
  const headers = [...fromAuth, ...fromUser]
  const url = (config.serverUrl ?? '').replaceAll(/\$\{user_config\.([\w-]+)\}/g, '{$1}')
  return { type: 'streamable-http' as const, url, ...(headers.length === 0 ? {} : { headers }) }
}

const inputOf = (name: string, description: string, isRequired: boolean, isSecret: boolean) => ({
  name,
  description,
  isRequired,
  isSecret,
})

const runners: Readonly<Record<string, string>> = { npx: 'npm', uvx: 'pypi' }

/** A server that a package runner starts has a package; the format cannot describe other commands. */
function packagesOf(config: ServerConfig) {
  const registryType = runners[config.command ?? '']
  const packageName = (config.arguments ?? []).find((argument) => !argument.startsWith('-'))
  if (registryType === undefined || packageName === undefined) return {}
  const [, identifier, version] = /^(@?[^@]+)(?:@(.+))?$/.exec(packageName) ?? []
  if (identifier === undefined) return {}
  const environmentVariables = valueFields(config).map(({ name, description, required, secret }) =>
    inputOf(name, description, required, secret),
  )
  return {
    packages: [
      {
        registryType,
        identifier,
        ...(version === undefined ? {} : { version }),
        transport: { type: 'stdio' as const },
        ...(environmentVariables.length === 0 ? {} : { environmentVariables }),
      },
    ],
  }
}

const notFound = (name: string): AppError =>
  new AppError('ERR_NOT_FOUND', 'There is no such server in the registry that you can see.', {
    name: name.slice(0, 128).toWellFormed(),
  })
