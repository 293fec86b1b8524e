import { REDACTED_CHARS_MIN } from '../kernel/redactor.ts'
import type { Config } from './config.ts'
import type { Environment } from './config-paths.ts'

/**
 * The environment variables that the configuration refers to. A missing variable disables what needs it and nothing else: the
 * program starts and reports it.
 */
type UnsetVariable = Readonly<{ field: string; name: string; variable: string; problem: string }>

type Settings = Pick<Config, 'models' | 'executions' | 'workspaces' | 'oidc_providers'>

export function unsetVariables(config: Settings, env: Environment = process.env): readonly UnsetVariable[] {
  const { models, executions, workspaces, oidc_providers } = config
  const unset: UnsetVariable[] = []
  function check(field: string, name: string, reference: string | undefined, effect: string): void {
    const variable = reference?.slice('env:'.length)
    if (variable === undefined || isSet(env[variable])) return
    const next = `Set it in the environment of the server, then restart the server.`
    const problem = `${field}: '${name}' needs the environment variable ${variable}. It is not set, so ${effect}. ${next}`
    unset.push({ field, name, variable, problem })
  }
  for (const { name, api_key, enabled } of models.providers) {
    if (enabled)
      check('models.providers', name, api_key, 'only those who stored a key of their own can use this provider')
  }
  for (const { name, value: reference } of executions.secrets) {
    check('executions.secrets', name, reference, 'manifests that name this secret fail')
    const value = env[reference.slice('env:'.length)]
    if (isSet(value) && value!.length < REDACTED_CHARS_MIN) {
      const problem = `executions.secrets: the value of '${name}' has fewer than ${REDACTED_CHARS_MIN} characters, too few to redact it in records, so manifests that name this secret fail. Use a longer value.`
      unset.push({ field: 'executions.secrets', name, variable: reference.slice('env:'.length), problem })
    }
  }
  for (const { host, value } of workspaces.credentials) {
    check('workspaces.credentials', host, value, 'requests to this host are sent without it')
  }
  for (const { id, client_secret } of oidc_providers) {
    check('oidc_providers', id, client_secret, 'nobody can sign in with this provider')
  }
  return unset
}

/** For a command that is not the server: the environment of the server may be another. */
export const inThisTerminal = ({ problem }: UnsetVariable): string =>
  problem.replace('It is not set, so', 'It is not set in this terminal; if the server does not have it either,')

const isSet = (value: string | undefined): boolean => value !== undefined && value !== ''
