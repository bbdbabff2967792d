// Package list has lists whose links are fields of the elements. Adding an element allocates
// nothing, and the removal of an element does not search for it. There are four types:
//
//	type    order                 can be removed                link      words   for example
//	List    first in, first out   each element                  Node      1 + 4   operations that wait
//	Queue   first in, first out   the oldest; others: search    Node      2 + 4   posted receives
//	Stack   last in, first out    the newest                    Node      1 + 4   objects in no use
//	Set     none                  each element                  Member    1 + 3   messages of a connection
//
// The column words has the size of an empty list and the size of the link in each element, in
// pointers. A List and a Set find an element's neighbors in both directions. A Queue and a Stack
// are linked in one direction only, and take fewer instructions.
//
// # Elements
//
// An element has a field of type Node or Member, whose own field Value refers to the element:
//
//	type request struct {
//		node list.Node[request]
//		…
//	}
//
//	r := new(request)
//	r.node.Value = r // once, when the element is made
//	waiting.Push(&r.node)
//	for n := waiting.Front(); n != nil; n = n.Next() {
//		use(n.Value)
//	}
//	r.node.Remove()
//
// With one node an element can be in one list, queue or stack at a time, and move between them. An
// element that is in several lists at once has several nodes or members. A node knows the List that
// it is in (Node.In), and a member knows its neighbors, so Remove needs no list and cannot be called
// for the wrong one.
//
// The reference to the element costs a word. The alternative is a function from an element to its
// node. The code of a generic type would call it through a table, which takes many more instructions
// than the rest of the operation.
//
// # Misuse
//
// An element that is added to a List or a Set and is in one already causes a panic, and so does the
// removal of an element that is in none. The same holds for Remove of a Queue, and for Pop of any
// list that is empty. Whether a node that is added to a Queue or a Stack is in use is checked only
// in race builds, because these two are in the path of every message.
//
// # Goroutines
//
// A list has no synchronization. A list and the nodes of its elements belong to one goroutine at a
// time; in package ucp that is the goroutine that owns the worker.
package list
