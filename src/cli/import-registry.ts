import { AppError } from '../contract/app-error.ts'
import type { ImportPlan } from './import-plan.ts'

type Fields = Readonly<Record<string, unknown>>

/** Whether a document is a `server.json` of the MCP registry: one server, with packages or addresses. */
export const isRegistryServer = (value: unknown): value is Fields =>
  isFields(value) &&
  typeof value['name'] === 'string' &&
  (Array.isArray(value['packages']) || Array.isArray(value['remotes']))

/** What runs a package of each registry. */
const runners: Readonly<Record<string, Readonly<{ command: string; flags: readonly string[] }>>> = {
  npm: { command: 'npx', flags: ['-y'] },
  pypi: { command: 'uvx', flags: [] },
}

/** The first package that can run here, else the first address. Required values are asked for when it is deployed. */
export function planOfRegistryServer(document: Fields): ImportPlan {
  const shared = {
    name: textIn(document, 'title') ?? textIn(document, 'name')!,
    ...(textIn(document, 'description') === undefined ? {} : { description: textIn(document, 'description') }),
    ...(textIn(document, 'version') === undefined ? {} : { version: textIn(document, 'version') }),
    ...repositoryOf(document),
    labels: [{ key: 'registry-name', value: textIn(document, 'name')! }],
  }
  const packages = listIn(document, 'packages').filter(
    (one) => runners[textIn(one, 'registryType') ?? ''] !== undefined,
  )
  const [remote] = listIn(document, 'remotes')
  if (packages[0] !== undefined) return { create: { ...shared, ...packageFields(packages[0]) }, values: {}, notes: [] }
  if (remote !== undefined) return { create: { ...shared, ...remoteFields(remote) }, values: {}, notes: [] }
  throw new AppError(
    'ERR_INVALID_INPUT',
    'The server has neither an npm or PyPI package nor an address, so it cannot run here.',
    { field: 'packages' },
  )
}

function packageFields(one: Fields): Record<string, unknown> {
  const { command, flags } = runners[textIn(one, 'registryType')!]!
  const version = textIn(one, 'version')
  const identifier = textIn(one, 'identifier') ?? ''
  const pinned = version === undefined ? identifier : `${identifier}@${version}`
  const args = listIn(one, 'runtimeArguments').flatMap(argumentOf)
  const transport = one['transport']
  const isHttp = isFields(transport) && textIn(transport, 'type') === 'streamable-http'
  const url = isHttp ? URL.parse(textIn(transport, 'url') ?? '') : null
  return {
    serverType: 'local',
    command: textIn(one, 'runtimeHint') ?? command,
    arguments: [...(args.length > 0 ? args : flags), pinned, ...listIn(one, 'packageArguments').flatMap(argumentOf)],
    environment: listIn(one, 'environmentVariables').map((variable) => ({
      key: textIn(variable, 'name'),
      type: variable['isSecret'] === true ? 'secret' : 'plain_text',
      promptOnInstallation: variable['value'] === undefined,
      required: variable['isRequired'] === true,
      ...(textIn(variable, 'value') === undefined ? {} : { value: textIn(variable, 'value') }),
      ...(textIn(variable, 'description') === undefined ? {} : { description: textIn(variable, 'description') }),
      ...(textIn(variable, 'default') === undefined ? {} : { default: textIn(variable, 'default') }),
    })),
    ...(url === null
      ? {}
      : { transportType: 'streamable-http', httpPort: Number(url.port || 80), httpPath: url.pathname }),
  }
}

function remoteFields(remote: Fields): Record<string, unknown> {
  const headers = listIn(remote, 'headers').map((header) => {
    const name = textIn(header, 'name') ?? ''
    const isSecret = header['isSecret'] === true
    const field = {
      type: 'string',
      title: name,
      headerName: name,
      required: header['isRequired'] === true,
      ...(textIn(header, 'description') === undefined ? {} : { description: textIn(header, 'description') }),
      ...(isSecret ? { sensitive: true } : {}),
      ...(textIn(header, 'value') === undefined || isSecret ? {} : { default: textIn(header, 'value') }),
    }
    return [`header_${name.toLowerCase().replaceAll(/[^a-z0-9]+/g, '_')}`, field] as const
  })
  return {
    serverType: 'remote',
    serverUrl: textIn(remote, 'url'),
    ...(headers.length === 0 ? {} : { userConfig: Object.fromEntries(headers) }),
  }
}

/** A named argument with its value, or a value alone; an argument without a value is left to the user. */
function argumentOf(argument: Fields): string[] {
  const value = textIn(argument, 'value') ?? textIn(argument, 'default')
  const name = textIn(argument, 'name')
  if (textIn(argument, 'type') !== 'named' || name === undefined) return value === undefined ? [] : [value]
  return value === undefined ? [name] : [name, value]
}

function repositoryOf(document: Fields): Record<string, unknown> {
  const repository = document['repository']
  const url = isFields(repository) ? textIn(repository, 'url') : undefined
  return url === undefined ? {} : { repository: url }
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const textIn = (fields: Fields, name: string): string | undefined => {
  const value = fields[name]
  return typeof value === 'string' ? value : typeof value === 'number' ? String(value) : undefined
}
const listIn = (fields: Fields, name: string): readonly Fields[] => {
  const value = fields[name]
  return Array.isArray(value) ? value.filter(isFields) : []
}
