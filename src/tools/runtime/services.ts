/** The domain services that tools may call, by their exported interfaces. Only add what a tool uses. */
export type Services = Readonly<Record<never, never>>
