/** For a call whose answer will never come: its outcome is unknown. */
export const lostUnderWay = (what: string): string =>
  `The process that owned the state ended while ${what} was in progress; it may or may not have taken effect. Check, then call again.`

/** For a call that arrived after its connection had ended: nothing was done. */
export const notStarted = (what: string): string =>
  `The process that owned the state has ended, and ${what} was not started. Call again.`
