/** A component that is drawn again only when one of its properties is another value. */
import { Component, type FunctionComponent, h } from "preact";

export function memo<P extends object>(inner: FunctionComponent<P>): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      return Object.keys({ ...next, ...this.props }).some((key) => next[key as keyof P] !== this.props[key as keyof P]);
    }
    override render() {
      return h(inner, this.props as P & { children?: never });
    }
  }
  return Memo as unknown as FunctionComponent<P>;
}
