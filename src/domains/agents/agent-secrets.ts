import { type FieldValues, valuesInHandler } from '../manifests/named-secrets.ts'
import type { AgentManifest } from './manifest.ts'

export const valuesInAgent = ({ env, outputHandler, execution }: AgentManifest): readonly FieldValues[] => [
  { field: 'spec.env', values: env },
  ...valuesInHandler('spec.output_handler', outputHandler),
  ...execution.delivery.map(({ headers }, index) => ({
    field: `spec.execution.delivery.destinations[${index}].headers`,
    values: headers,
  })),
]
