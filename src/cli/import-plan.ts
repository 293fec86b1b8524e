import type { ImportedServer } from './import-config.ts'
import { hasSecretShape, isSecretName, redactServer } from './import-report.ts'

/** The plan for a server of a configuration: the arguments of the tools that register and deploy it, and notes. */
export type ImportPlan = Readonly<{
  create: Readonly<Record<string, unknown>> & Readonly<{ name: string }>
  /** For the deployment; secrets among them go into the secret store. */
  values: Readonly<Record<string, string>>
  notes: readonly string[]
}>

type Field = Record<string, unknown>

export const planOf = (server: ImportedServer): ImportPlan =>
  server.transport === 'stdio' ? localPlan(server) : remotePlan(server)

/** `${NAME}`, `${env:NAME}` and `$NAME` stand for a variable in the environment of Castellan, which starts the server now. */
function referenceIn(text: string): string | undefined {
  const name = /^(?:\$\{(?:env:)?([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)|env:([A-Za-z_]\w*))$/.exec(text)
  const found = name?.slice(1).find((part) => part !== undefined)
  return found && `env:${found}`
}

function localPlan(server: Extract<ImportedServer, { transport: 'stdio' }>): ImportPlan {
  const notes: string[] = []
  const userConfig: Record<string, Field> = {}
  const values: Record<string, string> = {}
  const displayed = redactServer(server) as typeof server
  const args = server.args.map((arg, index) => {
    if (displayed.args[index] === arg) return arg
    const name = `argument_${index + 1}`
    userConfig[name] = { type: 'string', title: `Argument ${index + 1}`, sensitive: true, required: true }
    values[name] = arg
    return `\${user_config.${name}}`
  })
  const environment = Object.entries(server.env).map(([key, value]) => {
    const reference = referenceIn(value)
    const isSecret = reference !== undefined || isSecretName(key) || hasSecretShape(value)
    return { key, type: isSecret ? 'secret' : 'plain_text', value: reference ?? value, promptOnInstallation: false }
  })
  const paths = server.args.filter((arg) => /^(\/|~\/)[^\s]*$/.test(arg) && !/^\/workspace(\/|$)/.test(arg))
  if (paths.length > 0) {
    notes.push(
      'has arguments that are paths on this machine, which its workspace cannot reach; allow them in workspaces.mounts and add mounts with edit_mcp_config',
    )
  }
  if (server.cwd !== undefined) notes.push('cwd is ignored: the server starts in its home directory')
  return {
    create: {
      name: server.name,
      serverType: 'local',
      command: server.command,
      ...(args.length === 0 ? {} : { arguments: args }),
      ...(environment.length === 0 ? {} : { environment }),
      ...(Object.keys(userConfig).length === 0 ? {} : { userConfig }),
    },
    values,
    notes,
  }
}

function remotePlan(server: Extract<ImportedServer, { transport: 'http' }>): ImportPlan {
  const values: Record<string, string> = {}
  const userConfig: Record<string, Field> = {}
  for (const [header, value] of Object.entries(server.headers)) {
    const name = `header_${header.toLowerCase().replaceAll(/[^a-z0-9]+/g, '_')}`
    const [, prefix = '', rest = value] = /^(Bearer |Basic |token )(.+)$/i.exec(value) ?? []
    userConfig[name] = {
      type: 'string',
      title: header,
      sensitive: true,
      required: true,
      headerName: header,
      ...(prefix === '' ? {} : { valuePrefix: prefix }),
    }
    values[name] = referenceIn(rest) ?? rest
  }
  const url = new URL(server.url)
  const authFields: Field[] = []
  for (const [name, value] of [...url.searchParams]) {
    if (!isSecretName(name)) continue
    authFields.push({ name, label: name, type: 'query', secret: true })
    values[name] = referenceIn(value) ?? value
    url.searchParams.delete(name)
  }
  return {
    create: {
      name: server.name,
      serverType: 'remote',
      serverUrl: url.href,
      ...(Object.keys(userConfig).length === 0 ? {} : { userConfig }),
      ...(authFields.length === 0 ? {} : { authFields, requiresAuth: true }),
    },
    values,
    notes: [],
  }
}
