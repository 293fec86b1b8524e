import { AppError } from '../../contract/app-error.ts'
import type { AgentManifest } from './manifest.ts'

type Given = Readonly<{ field: string; values: AgentManifest['env'] }>
type Handler = Readonly<{
  type: string
  headers?: AgentManifest['env'] | undefined
  env?: AgentManifest['env'] | undefined
}>

/**
 * What the platform deploys for somebody who may not deploy names no secret: its author could send it anywhere. Nobody
 * gains by having something written.
 */
export function requireNoSecrets(input: readonly Given[]): void {
  for (const { field, values } of input) {
    const found = Object.entries(values).find(([, value]) => namesSecret(value))
    if (found === undefined) continue
    const at = `${field}.${found[0].slice(0, 64).toWellFormed()}`
    throw new AppError(
      'ERR_PERMISSION_DENIED',
      `${at}: naming a secret needs the right to deploy (tier system); leave it out`,
      { field: at },
    )
  }
}

/** Headers may name one inside a text. */
const namesSecret = ({ from, value }: AgentManifest['env'][string]): boolean =>
  from === 'secret' || /\{\{\s*secret:/.test(value)

export const valuesInHandler = (field: string, handler: Handler | null): readonly Given[] => [
  { field: `${field}.headers`, values: handler?.headers ?? {} },
  { field: `${field}.env`, values: handler?.env ?? {} },
]

export const valuesInAgent = ({ env, outputHandler, execution }: AgentManifest): readonly Given[] => [
  { field: 'spec.env', values: env },
  ...valuesInHandler('spec.output_handler', outputHandler),
  ...execution.delivery.map(({ headers }, index) => ({
    field: `spec.execution.delivery.destinations[${index}].headers`,
    values: headers,
  })),
]
